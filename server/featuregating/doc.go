// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package featuregating connects feature gates to Features: what a gate gates is served while the stored Feature permits it. The parts for
// gated resources and OpenAPI serve any server that is built on the generic apiserver.
//
// The way of a gate, from its registration to what is served:
//
//  1. gates/gates.go registers Annex's gates and their defaults; --feature-gates sets them. A marker in types.go names the gate of a field,
//     and `make generate` writes the table GatedFields() beside the types. A gated resource is a row of gates.Gated.
//  2. features.go turns each gate into a feature of the namespace annex-system. The tasks follow from the table: turning off clears
//     fields that are dropped, and waits until users have removed rejected fields and objects of gated resources.
//  3. engines.go runs an engine (featuregate/lifecycle) for each namespace in every replica. It waits for the host (wait.go), creates the
//     Features, and takes them from state to state. reporters.go stores the reports of programs in Leases on the host.
//  4. registry/features reads the state with each write (Permits) and follows it (Follower); gating.go calls the rest on a change.
//  5. What is not permitted: registry/resource drops or refuses gated fields; handler.go and discovery.go hide gated resources, with 404
//     and the end of watches; server/openapi publishes documents without either (gates/document.go).
//  6. reporter.go reports which gates this process uses, so that a Feature does not turn Off before all processes have stopped using it.
//
// A resource whose Feature is TurningOff is still served, so that stored objects can be read, changed and deleted; registry/resource
// (Kind.Gate) refuses new ones. Resources of the legacy group, below /api, cannot be gated.
//
// The flag --features sets features of components without a server of their own, which read them with featuregate.FromAPI. The component
// annex-features announces them in their namespaces, without tasks. A Feature with source Observed stays as it is.
//
// Features are written through the server itself. Leases are written to the host in annex-system alone: those of the replicas, for every
// namespace, and those of reporters. In other namespaces Leases are read, because other servers may announce features there; when the
// last of those is gone, lifecycle.Orphans reports it in its Features.
//
// This package is not a stable API.
package featuregating
