// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coordination serves Lease, which programs elect leaders and prove life with. It is not a stable API.
package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = coordinationv1.SchemeGroupVersion

// Kinds lists the kinds of the group.
func Kinds() []resource.Served { return []resource.Served{leases().Served()} }
