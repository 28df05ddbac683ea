// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusteridentity tells a program which cluster it runs in and which set of clusters that belongs to (KEP-2149, the consumer's
// side). It follows the two well-known ClusterClaims:
//
//	cluster := clusteridentity.New()
//	go cluster.Run(ctx, config)
//	…
//	identity, err := cluster.WaitForMembership(ctx)
//
// New needs no API, so that loggers and metrics can be made with Source.Current before flags are parsed: see the packages logs,
// metrics and events below this one.
//
// # What can be relied on
//
// While a cluster is a member of a set its id exists and does not change. Two watches deliver in any order, so what they show together
// may never have been true: of a cluster that left one set, changed its id and joined another they may show the old id in the new set.
// They are therefore a reason to look, and no more: what is told was read as set, id and set again, with the set the same membership
// both times. There are three kinds of identity, all known: no id and no set, an id without a set, and an id in a set. States between
// two looks are skipped; the last one never is. Another Membership means that the cluster has left in between, even if it joined the
// same set again.
//
// # Not known, nothing there, and away
//
// Known is false until the claims have been read for the first time. Without the claim there is no id, and that is known. While the
// API is away, forbidden or not served, the last identity stays, and Source.Trouble says what is wrong; it is logged when it begins and
// when it ends.
//
// # Rights
//
// List and watch of the ClusterClaims id.k8s.io and clusterset.k8s.io, by resourceNames: what the role annex-clusterclaim-reader gives
// to everyone. Each request selects one of them by metadata.name; others are never read.
package clusteridentity
