// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle turns features on and off for a server, and cleans up behind them (KEP-3920, the server flow). It is for any
// server: it takes a list of Features, with the tasks to be done on the way, and typed clients.
//
// Every replica of the server runs an Engine. There is no elected leader: each replica keeps a Lease that lists what it is
// configured to, and which replica works on a feature follows from the set of live ones by a hash. For a moment two may believe that
// it is them; every write is conditional on what was read, and tasks are idempotent, so that does no harm.
//
//	Lease of each replica   replica.go, identity.go, assignment.go, internal/heartbeat
//	decision                decide.go, desired.go, versions.go, usepoll.go, conditions.go: a pure function of the Feature and an input
//	action                  engine.go, reconcile.go, uses.go
//	without a live server   orphans.go
//	tasks                   task.go, tasks.go, count.go
//
// To follow how a feature is turned off, read reconcile.go (read, decide, write, start a task), decide.go (transition and tasks in order)
// and usepoll.go (WaitForUses), each from top to bottom.
//
// # Order
//
// TurningOff is WaitForUses, the feature's own tasks, and CountReferences. TurningOn is the feature's own tasks, and WaitForUses; with
// a canary it is those of its own tasks that change no stored data, Canary, the others, and WaitForUses. Use is permitted in On, and
// in TurningOn once WaitForUses is the first task left, so that reporters may enable the feature; while Canary is the first, to those
// in the canary.
//
// A Feature that is announced for the first time, or anew because its object was lost, begins with CountReferences, where stored objects
// can use it. If none does, its tasks await no confirmation, and one that is to be Off is Off at once, unless it has tasks besides
// those that clean up. A server that writes without comparing the state in the transaction counts only after WaitForUses.
//
// # What holds a transition up
//
// It begins only when all live replicas know the feature, agree whether spec.desired decides, and want the same value unless it does.
// While they disagree, no task that changes stored data runs. Such tasks also await confirmation while nobody has chosen the value, until
// somebody sets it; and WaitForUses waits until every live reporter has answered since the question was asked and none disagrees.
//
// Nobody has chosen a value if nobody sets the feature and either nobody did before, or what was set only repeated the former default,
// or spec.desired asks for the former value and replicas no longer allow it, or the Feature is announced anew. To take away a flag that set something else is somebody's act like setting
// one.
//
// # Change of version
//
// A Feature's status.version is the version of the component that what is stored belongs to. It follows the highest version that
// replicas announce, unless a VersionChange that one of them knows lies between; then it stays until the tasks of all changes on the
// way are done. These begin when no live replica is of another version. Until then nothing that changes stored data runs, the
// state stays, and the conditions Settled, SafeToUpgrade and SafeToDowngrade name who runs which version; so a replica that is
// upgraded, or rolled back, alone moves nothing.
//
// The feature goes through the transition to the value that it has, with its tasks named Upgrade/v1.5.0/… or Downgrade/v1.5.0/…,
// lowest change first on the way up, highest first on the way down:
//
//	On   TurningOn    the tasks of the change, WaitForUses
//	Off  TurningOff   WaitForUses, the tasks of the change, CountReferences
//
// In a transition to another value they come before the feature's own tasks. After a crash the names say where to go on. With each
// change that is done status.version moves past it. If the version turns round in the middle, a change of which some task has begun
// is crossed back with the tasks of that direction, and one that has not begun is left out. The first announcement of a feature runs none.
//
// Who upgrades the server wants the upgrade, so these tasks await no confirmation. One that destroys something asks for leave by
// itself, as ClearCollection does, which fails while data loss is not allowed. The feature then stays in transition, and nothing is
// lost: the objects can be saved and removed by hand, the server restarted with leave, or the version taken back.
//
// For a kind whose old and new schemas have nothing in common, an author
//
//   - stores each version of the kind at a place of its own, so that replicas of two releases do not stumble over what the other one
//     stores while an upgrade rolls out;
//   - goes on serving the other version for all but creation, without a feature that decides about it, from a type that keeps
//     what it does not understand: as leftovers to read, save and remove;
//   - gives the feature one VersionChange, in the same words in both releases, with ClearCollection over the leftovers:
//     Upgrade clears the old version's, Downgrade the new one's. The newer release does not downgrade itself, but SafeToDowngrade says so.
//
// The server under test/integration/lifecycle/upgrade is an example.
//
// # Uses
//
// What is listed in status.uses goes when no live reporter of its component and version has been there for an hour, or for a minute if
// the list is nearly full: by what the replica has seen itself, in every Feature of the namespace that is not observed.
//
// # Clocks
//
// Leases are live while they are seen to change, by the local monotonic clock; the times written in them are not compared with any
// clock. A replica that takes over WaitForUses asks anew rather than trust the time at which the other one would have read the answers.
package lifecycle
