// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package up runs everything in one process: embedded etcd, the control plane as a host, and the extension apiserver
// behind real APIServices of that host. It is what `annex up` does, and what tests run in process.
//
// The parts meet as they would on separate machines: the host reaches the extension apiserver over TLS at the service
// its APIServices name, and the extension apiserver authenticates and authorizes against the host with a kubeconfig.
// Only the name of the service is resolved in code, as the host has no Service kind.
//
// Starting: the lock of the data directory, both ports, etcd, the certificates and kubeconfigs, then both servers side by
// side, and last the APIServices. Stopping: the host first, until it has answered all it had, so that nothing new reaches
// the extension apiserver; then the extension apiserver; then etcd; then the lock.
package up
