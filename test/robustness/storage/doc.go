// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage has etcd break below the servers: members and leaders go, the disk is full or slow, the process is killed in the middle
// of writes, its log is torn, revisions are compacted and come back from a backup. Clients and watchers of package load are at work
// meanwhile, and judge. The table of faults is in README.md of the folder above.
package storage
