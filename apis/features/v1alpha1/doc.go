// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/kube-annex/annex/apis/features
// +k8s:defaulter-gen=TypeMeta
// +k8s:protobuf-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.kube-annex.annex.apis.features.v1alpha1
// +k8s:register-gen=package
// +groupName=features.k8s.io

// Package v1alpha1 is the served version of features.k8s.io: which feature is on, who uses it, and whether it is
// safe to turn off (KEP-3920). A Feature is what people and controllers read; a FeatureReport is how a component
// tells which gates it has.
package v1alpha1
