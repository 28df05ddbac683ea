// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity

import (
	"k8s.io/apimachinery/pkg/types"
)

// Identity is what a cluster says about itself at one moment. Identities can be compared with ==.
type Identity struct {
	// ID is the cluster's id, a DNS label; empty if it has none.
	ID string
	// ClusterSet is the set that the cluster is a member of; empty if it is in none. A member has an id.
	ClusterSet string
	// Membership tells one membership from the next, even in the same set: it is the uid of the ClusterClaim clusterset.k8s.io.
	Membership types.UID
	// Known is false as long as the claims have not been read; nothing else is set then.
	Known bool
}

// IsMember tells whether the cluster is a member of a set.
func (i Identity) IsMember() bool { return i.ClusterSet != "" }

// String is for people: "cluster-1 in fleet.example.com".
func (i Identity) String() string {
	switch {
	case !i.Known:
		return "a cluster that is not known yet"
	case i.ID == "":
		return "a cluster without an id"
	case !i.IsMember():
		return i.ID + " in no set"
	}
	return i.ID + " in " + i.ClusterSet
}
