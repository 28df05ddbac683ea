// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package multicluster stores the group multicluster.k8s.io.
//
// The well-known pair id.k8s.io and clusterset.k8s.io is tied together by pairrules.go, inside the etcd transaction. Who may
// use reserved names, and who may change a reservation, is asked of the authorizer by admission plugins of the server. Whoever
// keeps ids unique in a set is asked by joining.go, for the id that the transaction compares. This package is not a stable API.
package multicluster

import (
	"errors"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/registry/resource"
)

// Install adds the group's kinds.
func Install(group *resource.Group) error { return install(group, clusterClaims) }

func install(group *resource.Group, claims resource.Kind[*multicluster.ClusterClaim]) error {
	return errors.Join(claims.Install(group), clusterIDReservations.Install(group))
}
