// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage brings the objects of all kinds to etcd through one shared client.
//
// Upstream's storage factory dials a client for each resource, and more for compaction and health. Decorator builds the same
// stack, etcd3's store below a watch cache, on a client that is given to it, and lets a layer of Annex's own stand between
// store and client: the guard of package resource.
package storage
