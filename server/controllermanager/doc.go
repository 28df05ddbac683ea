// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllermanager runs the controllers that act on the extension's APIs, against whatever host serves them: it is what
// `annex controllers` does, and `annex up` runs the same groups in its own process.
//
// Controllers are clients of the API like anyone else's programs (folder controllers/). They are led in groups (package
// controllers/leadership), each under a Lease of its own: of several replicas one runs a group at a time, and groups are spread
// over the replicas. A replica that leads nothing is ready.
//
// The process reports which of Annex's feature gates it uses (package featuregate) to the Features in annex-system.
//
// The server beside them answers /healthz, /livez and /readyz to anyone, and /healthz/leadership, which says who leads, with them;
// /metrics and, with --profiling, /debug/pprof/ to those who may get the path on the host.
//
// This package is not a stable API.
package controllermanager
