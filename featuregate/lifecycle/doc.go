// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle turns features on and off for a server, and cleans up behind them (KEP-3920, the server flow). It is for any
// server: it takes a list of Features, with the tasks to be done on the way, and typed clients.
//
// Every replica of the server runs an Engine. There is no elected leader: each replica keeps a Lease that lists what it is
// configured to, and which replica works on a feature follows from the set of live ones by a hash. For a moment two may believe that
// it is them; every write is conditional on what was read, and tasks are idempotent, so that does no harm.
//
//	Lease of each replica   replica.go, identity.go, liveness.go, rendezvous.go
//	what to do next         next.go, wish.go, questions.go, conditions.go: a pure function of the Feature and what is known of others
//	doing it                engine.go, reconcile.go, write.go, attempt.go
//	tasks                   task.go, tasks.go, count.go
//
// # Order
//
// TurningOff is WaitForUses, the feature's own tasks, and CountReferences. TurningOn is the feature's own tasks, and WaitForUses. Use
// is permitted in On, and in TurningOn once WaitForUses is the first task left, so that whoever is asked may say yes.
//
// # What holds a transition up
//
// It begins only when all live replicas want the same value, or when spec.desired of a dynamic feature asks for it. While they
// disagree, no task that changes stored data runs. Such tasks also wait while a value has changed because a default did, until somebody
// sets it; and WaitForUses waits until every live reporter has answered since the question was asked and none disagrees.
//
// # Clocks
//
// Leases are live while they are seen to change, by the local monotonic clock; the times written in them are not compared with any
// clock. A replica that takes over WaitForUses asks anew rather than trust the time at which the other one would have read the answers.
package lifecycle
