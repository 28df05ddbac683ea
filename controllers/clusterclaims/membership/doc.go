// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership keeps the cluster's id reserved at the hub of its set for as long as the ClusterClaim clusterset.k8s.io exists,
// and frees it afterwards.
//
// The extension apiserver makes the reservation before a cluster joins, so there is mostly nothing to make. What is left for the
// controller:
//
//   - A cluster that joined before there was a hub gets its reservation. If the id is another cluster's, the condition Reserved of
//     the claim says so; nobody is thrown out of a set.
//   - A reservation is freed when the claim that it is held for, which was stored, is gone. With the hub away that is done later.
//   - A reservation for a claim that nobody has seen stored may belong to a request that is under way. It is freed when it has stayed
//     as it is for five minutes, which is more than any request may take. That is the case too after the controllers were down when
//     the cluster left.
//
// A reservation is freed as the version that was looked at, so one that a new membership has taken over meanwhile stays.
//
// With the hub away the condition stays what it was: a reservation does not expire.
//
// This package is not a stable API.
package membership
