// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node stores the group node.k8s.io/v1alpha1, whose NodeBalloon makes a node appear smaller (KEP-5620). It is not a stable API.
package node

import "github.com/kube-annex/annex/registry/resource"

// Install adds the group's kinds.
func Install(group *resource.Group) error { return nodeBalloons.Install(group) }
