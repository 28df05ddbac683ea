// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package featuregating takes the server's features through their states (featuregate/lifecycle), in every replica of the extension
// apiserver.
//
// Annex's own gates are Features of the namespace annex-system. They announce themselves: what server/featuregating/gates has is a Feature, and what
// it gates, as the generated tables say, makes its tasks. Turning off a gate whose fields are dropped clears them everywhere; where they
// are rejected, or a whole resource is gated, it waits until users have removed what is left. Nothing has to be added here for a new
// gate.
//
// The flag --features sets features of others, which have no server of their own and read them through featuregate.FromAPI. They are
// announced in their namespaces by the component annex-features, and have no tasks. A Feature that annex's observer writes (source
// Observed) stays as it is.
//
// Each namespace has its Engine. It begins when the host has the namespace and the server has its rights on Leases, and says once what
// it is waiting for. Features are written through the server itself, and Leases to the host, in annex-system alone: those of the
// replicas, for whatever namespace, and those of reporters, which the server writes when it takes a report. In other namespaces Leases
// are read, since other servers may announce features there. Where the last of those is gone, lifecycle.Orphans says so in its Features.
//
// The processes of Annex are reporters of their gates themselves; see reporter.go.
//
// Resources serves whole resources only while their features permit it. A resource whose feature is Off is hidden from discovery, requests for
// it get 404, and watches of it end. While its feature is TurningOff it is served, and registry/resource (Kind.Gate) refuses new objects.
// Resources of the legacy group, below /api, cannot be gated.
//
// This package is not a stable API.
package featuregating
