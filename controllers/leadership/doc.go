// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leadership elects leaders that can stop. A process that loses a Lease stops the work done under it, completely, before it
// lets go; then it is a follower in the same process and may lead again (KEP-5366). It works for any Go program.
//
// A Group has one Lease. A Candidate campaigns for the Leases of its groups; acquiring one begins a Term, for which the group makes
// fresh runners. The path of a group, top to bottom:
//
//	campaign   follow the Lease; take it when it is free, released by name, or expired      campaign.go, follow.go, observation.go
//	lead       renew the Lease; run the runners until something ends the term                lead.go, renewal.go, work.go
//	stop       cancel the runners, wait for every one to return, renewing meanwhile          lead.go
//	release    name the term that ended, so that the next leader need not wait; campaign     lock.go
//
// A term ends when the process is told to stop, when the group's condition no longer holds, when the group is handed to a process
// that leads fewer, when the Lease is lost, or when one of its runners returns, fails or panics. Runners that do not return in time,
// which is StopTimeout or what is left of a Lease that was not renewed, end the process: nothing else keeps two terms apart. A process
// that was paused past its Lease gives them a tenth of the lease duration after it woke up; its clients have refused to send since.
//
// # What a runner must do
//
//   - Return when its context ends, and not before.
//   - Own every goroutine it starts, and return only after the last of them. What is left over is counted, and named in the log.
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
// have renewed until just before. A candidate that starts after the deletion has seen none; there only the server's fence protects.
//
// # What can go wrong
//
// Candidate.ServeHTTP, for /healthz/leadership, tells the role in every group and what it is wedged by: a Lease that is held while
// nothing runs, runners that do not return, a Lease that nobody can acquire. The metric leader_election_wedged has the same reasons.
// Goroutines carry the labels leadership_group, leadership_term and leadership_runner in profiles.
package leadership
