// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/kube-annex/annex/apis/multicluster
// +k8s:defaulter-gen=TypeMeta
// +k8s:protobuf-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.kube-annex.annex.apis.multicluster.v1alpha1
// +k8s:register-gen=package
// +groupName=multicluster.k8s.io

// Package v1alpha1 is the served version of multicluster.k8s.io: what a cluster says about itself, first of all its
// id and the set it belongs to (KEP-2149).
package v1alpha1
