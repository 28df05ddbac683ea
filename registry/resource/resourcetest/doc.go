// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcetest exercises kinds the way clients meet them: over HTTP, against a real generic apiserver on a real etcd.
//
// Start serves groups; Run takes one kind through create, read, watch, update, every patch, apply, status, tables,
// selectors and deletion. A kind's own test adds what is special about it. This package is not a stable API.
package resourcetest
