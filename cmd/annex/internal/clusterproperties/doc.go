// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterproperties takes ClusterClaims from and to the ClusterProperties of about.k8s.io: it is what `annex claims import` and
// `annex claims export` do.
//
// A ClusterProperty and a ClusterClaim are each a name and a value. What about.k8s.io calls cluster.clusterset.k8s.io is id.k8s.io here;
// all other names stay. Values, labels and annotations are taken as they are, so that there and back is the same. Not taken is what
// belongs to the one object and not to what it says: status, finalizers, owners and managed fields, and kubectl's annotation
// kubectl.kubernetes.io/last-applied-configuration, which holds the other object.
//
// What cannot be taken is refused with the reason and what to do, and the rest is done. Before a value, a label or an annotation that
// is there is replaced, the user has to say so. A set is never left or changed: that ends a membership, and is for people. The set is
// taken after the id and not without it: a cluster would join under another id than the one that the set was told with.
//
// Nothing is deleted, and doing the same twice changes nothing the second time.
package clusterproperties
