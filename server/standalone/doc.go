// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package standalone runs everything in one process: embedded etcd, the control plane as a host, the extension apiserver
// behind real APIServices of that host, and the extension's controllers. It is what `annex up` does, and what tests run in process.
//
// The parts meet as they would on separate machines: the host reaches the extension apiserver at the service its APIServices
// name, shows it the certificate of its front proxy, and names the user in headers; and the extension apiserver authenticates and
// authorizes against the host with a kubeconfig. Only two things are done in code: the name of the service is resolved there, as the host has no
// Service kind; and requests for the extension's kinds are handed to its handler, by the same rules but without TLS in between
// (package server/controlplane/internal/localdispatch). Discovery and OpenAPI documents take the connection.
//
// Starting: the lock of the data directory, both ports, etcd, the certificates and kubeconfigs, then both servers side by
// side, the APIServices, and last the controllers, which nobody has to wait for. Since the lock proves that the former process is
// dead, Leases are retaken at once. Stopping: the controllers, and what turns features on and off, both of which give their Leases
// back; the host, until it has answered all it had, so that nothing new reaches the extension apiserver; then the extension
// apiserver; then etcd; then the lock.
//
// Certificates, those of authorities included, are renewed while it runs, after two thirds of their life: servers show new ones at once,
// the parts' requests to the host go over new connections while watches on old ones end by themselves, and kubeconfigs are written anew.
//
// Controllers that do not stop in time end the process, and with it its etcd, which is stopped in order before; see package
// controllers/leadership.
//
// This package is not a stable API.
package standalone
