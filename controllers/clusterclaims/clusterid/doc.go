// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterid provides the cluster's id, the ClusterClaim id.k8s.io: it creates the claim where there is none, from the source
// it was told, and again when it is gone.
//
// A claim is the controller's own while its annotation annex.io/provisioned-id repeats its value; whoever changes the value has made
// it theirs. What is not its own it never writes, and what is its own it changes only when it was told another id, and never while the
// cluster is a member of a set: the API refuses that. Where the claim and the source differ, the condition Provisioned of the
// claim is False and an Event says so.
//
// This package is not a stable API.
package clusterid
