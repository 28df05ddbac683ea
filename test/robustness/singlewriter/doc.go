// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package singlewriter proves that groups under controllers/leadership have one writer at a time, whatever happens to their processes.
//
// Three workers (the program below worker) campaign for ten groups. They reach `annex up` through proxies that delay, cut off,
// swallow and refuse requests; they are stopped, killed, told to hand over; their Leases are edited and deleted; the server is
// killed. Two checkers watch:
//
//   - History follows etcd from its first revision. Every write has the writer's term in it, which must be the one that the Lease
//     was in at that revision. That holds for all faults, since the server compares the term in the transaction of the write.
//   - Intervals follow the workers: from start to stop of a runner, no other runner of the group may run. That needs no fence and
//     shows that leaders stop before they let go. It holds for all faults but paused processes, which cannot stop, and hands that
//     take a Lease from a leader that is cut off.
//
// Both must fail when what they check is taken away: tests run workers that let go too early, and proxies that drop the header.
//
// Every failure prints the seed. Schedules of faults follow from it; how requests and faults interleave does not.
package singlewriter
