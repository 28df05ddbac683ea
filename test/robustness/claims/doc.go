// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package claims proves that id.k8s.io and clusterset.k8s.io belong together, whoever writes them at the same time: the rules of
// KEP-2149 about the lifespan of a cluster's id hold across replicas of the server, while replicas and etcd's leader are killed.
//
// Three replicas serve the claims from three etcd members, each a process of its own; replicas are the test's binary.
// Sixteen clients race in rounds. Half of them join and leave a set, the others make, change and delete the id, each with every
// verb that can. Two checkers watch:
//
//   - History follows etcd from its first revision and decodes what is stored. No revision may have a set without its id, an id
//     that is being deleted beside a set, or another id than the one that the cluster joined with.
//   - Model says what each request may be answered while the others run. All answers of a round have to be those of some order in
//     which the requests were done one by one, on both claims together. That is stronger than linearizable per claim: a list is
//     one look at both, and writes have to be in the order of their resource versions.
//
// Requests that were not answered, for a kill, may have been done or not, in that round or the next.
//
// Both checkers must fail when the guard of registry/resource is taken away: a test runs replicas that check first and then write.
//
// Every failure prints the seed. What clients do and when something is killed follows from it; how they interleave does not.
package claims
