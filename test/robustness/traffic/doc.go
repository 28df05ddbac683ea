// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package traffic keeps clients and watchers at work on a few objects while something breaks. Package validate checks what they saw.
//
// Clients create, update, patch, delete, read and list objects of one resource, each request at some server, and the next one at another
// after a failure. Every write has a value of its own. Watchers list and watch as informers do, continue at another server from the
// last version when a watch ends, and list again when the version is gone. Verdict fails the test with violations, and if the
// goroutines of servers grow, where Options.Goroutines counts them.
//
// What clients do follows from the seed; how they interleave does not.
package traffic
