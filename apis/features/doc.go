// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=features.k8s.io

// Package features holds the hub (internal) types of features.k8s.io: the shape in which the registry and validation
// see every object, whatever version it was sent in. Clients use the served versions in the packages below this one.
package features
