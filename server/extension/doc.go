// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package extension is the extension apiserver: the groups features.k8s.io, multicluster.k8s.io and node.k8s.io as a
// server of their own, which any host cluster puts behind APIService objects.
//
// The server keeps its objects in its own etcd and asks the host for everything else: who a user is, what they may do,
// which namespaces exist, how requests are queued. None of that has to be there when it starts: it serves at once, is
// alive, and becomes ready when the host has answered.
//
// A server is built as upstream's are: options.go, config.go (newConfig applies the options), apis.go (the API groups), gating.go (what is
// gated), run.go.
//
// What is gated is published, and may be written, while a Feature in the namespace annex-system permits it. Every replica
// takes part in turning these Features on and off (server/featuregating), and keeps Leases on the host by which others know of it.
//
// Besides these, two things are written to the host by every replica, outside any term of controllers/leadership: the certificate
// authorities that a replica serves under (server/internal/certificates/rotation), and an annotation that tells the host when this replica has changed its
// OpenAPI (openapi.Announcer). Both say what is true of the replica itself, and in any order of writes the last one is right.
//
// This package is not a stable API.
package extension
