// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coordination serves Lease, which programs elect leaders and prove life with.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = coordinationv1.SchemeGroupVersion

// Types returns an empty object of every type of the group.
func Types() []runtime.Object {
	return []runtime.Object{&coordinationv1.Lease{}, &coordinationv1.LeaseList{}}
}

// Install adds the kinds to their group.
func Install(group *resource.Group) error { return leases().Install(group) }
