// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:protobuf-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=test.annex.example.v1alpha1
// +k8s:register-gen=package
// +groupName=example.annex.test
// +featureGates=github.com/kube-annex/annex/test/integration/gatedfields/gates

// Package v1alpha1 is what a third party's API with gated fields looks like: they are nested, in lists and in maps. Its types are
// their own hub.
package v1alpha1
