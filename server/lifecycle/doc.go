// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle takes the server's features through their states (featuregate/lifecycle), in every replica of the extension
// apiserver.
//
// Annex's own gates are Features of the namespace annex-system. They announce themselves: what server/gates has is a Feature, and what
// it gates, as the generated tables say, makes its tasks. Turning off a gate whose fields are dropped clears them everywhere; where they
// are rejected, or a whole resource is gated, it waits until users have removed what is left. Nothing has to be added here for a new
// gate.
//
// The flag --features sets features of others, which have no server of their own and read them through featuregate.FromAPI. They are
// announced in their namespaces by the component annex-features, and have no tasks. A Feature that annex's observer writes (source
// Observed) stays as it is.
//
// Each namespace has its Engine. It begins when the host has the namespace and lets its Leases be written, and says once what it is
// waiting for. Features are written through the server itself, and Leases to the host.
//
// The processes of Annex are reporters of their gates themselves; see reporter.go.
package lifecycle
