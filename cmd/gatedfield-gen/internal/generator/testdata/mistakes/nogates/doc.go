// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +groupName=mistakes.example.com
// +k8s:openapi-model-package=com.example.mistakes.v1
// +featureGates=example.com/no/such/gates

// Package v1 names gates that do not exist.
package v1
