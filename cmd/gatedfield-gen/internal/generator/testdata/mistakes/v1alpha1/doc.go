// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +groupName=mistakes.example.com
// +k8s:conversion-gen=github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/mistakes/hub
// +k8s:openapi-model-package=com.example.mistakes.v1alpha1

// Package v1alpha1 has every mistake that one can make with a marker.
package v1alpha1
