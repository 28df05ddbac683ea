// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// priority orders a group-version in discovery: larger first, the group before the version.
type priority struct{ group, version int32 }

// ownPriority is that of groups that are given in code, as Kubernetes gives it to custom resources.
var ownPriority = priority{1000, 100}

// priorities are those that Kubernetes gives its groups, so that clients find the same order here. A group-version that is
// not listed gets no APIService, and is then not reachable.
func priorities() map[schema.GroupVersion]priority {
	return map[schema.GroupVersion]priority{
		{Group: "", Version: "v1"}:                             {18000, 1},
		{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
		{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
		{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
		{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
		{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
		{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
		{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
		{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
		{Group: "storagemigration.k8s.io", Version: "v1"}:      {15800, 15},
	}
}
