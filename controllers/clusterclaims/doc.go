// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterclaims is what the controllers of ClusterClaims have in common: each is about one claim with a well-known name,
// follows it, and tells what it found by a condition of the claim and by Events.
//
//   - clusterid provides the claim id.k8s.io.
//   - membership keeps the cluster's id reserved at the hub of its set, for as long as clusterset.k8s.io exists.
//   - hub is the client of the hub, which the extension apiserver uses as well: before a cluster joins.
//
// This package is not a stable API.
package clusterclaims
