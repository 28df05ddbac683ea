// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub reserves cluster ids at the hub of a set of clusters, so that no two members of the set have the same. The hub is any
// cluster that serves ClusterIDReservations; a member is a cluster whose ClusterClaim clusterset.k8s.io exists.
//
// # The protocol
//
// A reservation's name is made from set and id, so the hub's store lets one cluster make it. A cluster makes it before it joins, and
// frees it after it left; it never expires, because a cluster that is cut off from the hub is still a member.
//
// A reservation is a cluster's own by spec.clusterUID, whichever claim it was made for: after a crash, or when an id is wanted again
// before it was freed, the cluster takes its reservation over, by naming the new claim in the annotation annex.io/claim-uid. To
// delete it and make another would let somebody else come in between, while a second request on the same cluster may be joining on
// the strength of it.
//
// Every take-over is a new version of the reservation, and freeing names the version that was looked at. So a late request to free
// what a former membership held never frees what a later one holds.
//
// This package is not a stable API.
package hub
