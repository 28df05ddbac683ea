// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +groupName=gadgets.example.com
// +k8s:conversion-gen=github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/example/hub
// +k8s:openapi-model-package=com.example.gadgets.v1beta1

// Package v1beta1 has gated fields everywhere where they can be.
package v1beta1
