// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leadership elects leaders that can stop. A process that loses a Lease stops the work done under it, completely, before it
// lets go; then it is a follower in the same process and may lead again (KEP-5366). It works for any Go program.
//
// A Group has one Lease. An Elector acquires the Leases of its groups; acquiring one begins a Term, for which the group builds
// fresh runnables. The path of a group, top to bottom:
//
//	acquire    follow the Lease; take it when it is free, released by name, or expired      acquire.go, follow.go, observation.go
//	lead       renew the Lease; run the runnables until something ends the term             lead.go, renewal.go, work.go
//	stop       cancel the runnables, wait for every one to return, renewing meanwhile       lead.go
//	release    name the term that ended, so that the next leader need not wait; start over  lock.go
//
// A term ends when the process stops, when the group's condition no longer holds, when the group is handed to a process
// that leads fewer, when the Lease is lost, or when one of its runnables returns, fails or panics. Runnables that do not return in time,
// which is StopTimeout or what is left of a Lease that was not renewed, end the process: nothing else keeps two terms apart. A process
// that was paused past its Lease gives them a tenth of the lease duration after it woke up; its clients have refused to send since.
//
// # What a runnable must do
//
//   - Return when its context ends, and not before.
//   - Own every goroutine it starts, and return only after the last of them. Options.DetectLeaks counts and logs goroutines that remain.
//   - Start goroutines with Go or do their work in Call, and wrap event handlers in EventHandler: a panic then ends the term, as that of
//     the runnable itself does, and not the process. Go cannot recover a panic in any other goroutine.
//   - Remove every event handler, health check and metric that it has added; Term.OnEnd, Term.AddHealthCheck and Term.Handle help.
//   - Make its clients and informers from Term.Client, in New or later: they are those of one term. Their writes name the term, and
//     once it is over nothing is sent any more.
//   - Start nothing in New.
//
// # What protects against late writes
//
// A process may be paused, by its machine or a debugger, and wake up after its Lease was taken over. Its clients refuse to send by a
// clock that counts the pause. A request that was under way names its term in the header Annex-Term, see apis/fencing: servers that
// keep the Lease in their own etcd compare the term in the transaction of the write; other Annex servers read the Lease first, which
// is best effort. Other servers ignore the header; artifacts/deploy has a ValidatingAdmissionPolicy that warns, with
// Options.MarkWrites.
//
// A Lease that was deleted, or lost its holder, by anybody's hand is taken over a lease duration after that was seen: the holder may
// have renewed until just before. An elector that starts after the deletion has seen none; there only the server's fence protects.
//
// # Time
//
// Options.Clock decides what time has passed, since the clock of package time stops while a machine is suspended. Timers only end waits,
// after which the clock is read again; they are those of package time, so that tests in bubbles of testing/synctest control both.
//
// # What can go wrong
//
// Elector.ServeHTTP, for /healthz/leadership, writes the role in every group and why it is stuck: a Lease that is held while
// nothing runs, runnables that do not return, a Lease that nobody can acquire, and a leader whose client is refused to list or watch a
// resource, so that its caches never sync; for the last there is an Event about the Lease as well. The metric leader_election_wedged has the same reasons.
// Goroutines carry the labels leadership_group, leadership_term and leadership_runner in profiles.
package leadership
