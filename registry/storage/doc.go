// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage brings the objects of all kinds to etcd through one shared client.
//
// Upstream's storage factory dials a client for each resource, and more for compaction and health. Here all resources share one client, and
// stack.go lists all layers between a resource and etcd in order, upstream's and ours.
//
// With upstream, one object whose bytes in etcd cannot be decoded makes all others of its resource unreadable: lists fail, and the watch
// cache does not start. Here lists and watches leave it out, and say so in a warning and in the log. Reading it by name fails, so does
// clearing what it is in, and a user with the right to do so can delete it unsafely, as upstream. Only broken bytes are treated so. With
// encryption at rest these are also values that a local provider cannot decrypt although it has their key. Whatever is out of reach for
// another reason, such as a key server or a conversion webhook that is away or a key or a version that is not known here, fails the list as
// before: it must not seem to be gone.
//
// This package is not a stable API.
package storage
