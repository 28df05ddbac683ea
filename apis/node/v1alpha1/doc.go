// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/kube-annex/annex/apis/node
// +k8s:defaulter-gen=TypeMeta
// +k8s:protobuf-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=com.github.kube-annex.annex.apis.node.v1alpha1
// +k8s:register-gen=package
// +groupName=node.k8s.io

// Package v1alpha1 is the served version of node.k8s.io that Annex adds: NodeBalloon makes a node appear smaller or
// larger without evicting anything (KEP-5620).
//
// An old version of the built-in RuntimeClass bears the same group and version, so this package must never be
// registered in the scheme of client-go.
package v1alpha1
