// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd gives servers their store: an etcd embedded in a data directory, or an external cluster.
//
// A Backend holds one client that all resources of all servers in the process share (package registry/storage builds on it).
// Embedded, its reads, writes and watches are direct calls into the etcd server; the unix socket serves what asks for an
// endpoint. The etcd listens on that socket and on nothing else. One process has a data directory at a time (lock.go), the
// directory tells which format it was written in (format.go), and it has an id, under which its process retakes its Leases (id.go).
//
// Old revisions are compacted every five minutes by the apiserver's own compactor, embedded or external: stores can ask it what
// is gone, and replicas agree on one that works. When the space quota is reached etcd raises the NOSPACE alarm, under which that
// compactor cannot work because it writes first; quotaalarm.go then compacts, defragments and lifts the alarm by itself. Live data
// that fills the store is reported by the log and by /healthz/etcd-space, but neither by livez nor readyz: deletes are what
// helps, and they must get through.
//
// Nothing that etcd acknowledged is lost when the process is killed: every write is synced to the log first. A log that a disk has
// damaged is found before etcd starts (walcheck.go): etcd's own wal.Verify takes every damage for the torn end of the log, and etcd
// then truncates acknowledged writes (TestEtcdTakesEveryDamageForTheEnd). An etcd that cannot go on, or whose directory is taken away,
// is reported by Failed, so that the process can end in order.
package etcd
