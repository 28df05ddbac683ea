// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage brings the objects of all kinds to etcd through one shared client.
//
// Upstream's storage factory dials a client for each resource, and more for compaction and health. Decorator builds the same
// stack, etcd3's store below a watch cache, on a client that is given to it, and lets a layer of Annex's own stand between
// store and client: the guard of package resource.
//
// With upstream, one object whose bytes in etcd cannot be decoded makes all others of its resource unreadable: lists fail, and the watch
// cache does not start. Here lists and watches leave it out, and say so in a warning and in the log. Reading it by name fails, so does
// clearing what it is in, and whoever has the right to it can delete it unsafely, as upstream. Only broken bytes are treated so. Whatever is
// out of reach for another reason, such as a key server or a conversion webhook that is away or a version that is not known here, fails the
// list as before: it must not seem to be gone.
package storage
