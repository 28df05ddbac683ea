// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package load keeps clients and watchers at work on a few objects while something breaks, and judges afterwards what they have seen.
//
// Clients create, update, patch, delete, read and list objects of one resource, each request at some server, and the next one at another
// after a failure. Every write has a value of its own. Watchers list and watch as informers do, go on at another server where they were
// when a watch ends, and list anew when they are told to. Verdict checks:
//
//   - Each object is linearizable, by porcupine: quorum reads and lists show the last write, no acknowledged write is lost. Requests
//     without an answer may have been done or not, at any later time.
//   - Resource versions never go back: what is written or listed after a write was acknowledged has a higher one, whatever the object.
//   - A resource version is one change of one object, whoever tells of it, caches included.
//   - Watch events come in order, without gaps and duplicates, from where a list or the watch before ended: every watcher sees all that
//     any client or watcher knows of, and in the end the same objects as a list.
//   - The servers' goroutines do not grow, where Options.Goroutines tells their number.
//
// Each checker is shown to find what it looks for, with forged histories and with a server that lies.
//
// What clients do follows from the seed; how they interleave does not.
package load
