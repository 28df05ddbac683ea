// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates of Annex's own servers and keeps them in a directory.
//
// All keys are ECDSA P-256: making one costs microseconds, so the first start of a server is as fast as
// later ones. Leaf certificates are caches: one that is two thirds through its life, of a time to come, garbled, for other
// names or signed by another authority is made anew without asking. An authority is not: clients trust it, so a
// damaged one is an error that names the file and the way out, and is never replaced silently. This package is not a stable API.
package pki
