// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +groupName=node.k8s.io

// Package node holds the hub (internal) types of node.k8s.io: the shape in which the registry and validation
// see every object, whatever version it was sent in. Clients use the served versions in the packages below this one.
package node
