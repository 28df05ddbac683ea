// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycletest tests that features can be turned on, used and turned off again, as if they had never been on (KEP-3920). It is
// for the author of any server whose features a lifecycle.Engine moves.
//
// An author supplies a Case for each feature, and a Server: how to start it with gates at given values, how to kill it, and what it
// stores. Then
//
//	func TestLifecycle(t *testing.T) {
//		lifecycletest.Covered(t, gates, cases)
//		lifecycletest.Run(t, server, cases, lifecycletest.Options{Namespace: "frob-system", Rounds: 3, Seed: seed})
//	}
//
// fails for a gate that has no case, and does this to the features of all cases at the same time:
//
//	all off, Prepare              what is stored and published now is what has to be there whenever all are off again
//	on, Use, off, CheckOff        first undisturbed, by spec.desired where the feature is dynamic, and restarted in between
//	on, off, CheckOff             by restarts with other flags
//	Rounds times the same         each half in one of the two ways, by chance; at a random point of each transition the server is killed
//
// Turned off while in use, a feature may wait for its users (lifecycle.WaitForRemoval). StopUsing is what they have to do; it is called
// once the Feature says what it waits for.
//
// # What is compared
//
// What clients can list, in all resources that the API serves; what the API publishes, as OpenAPI v2 and v3; and what the server
// stores, if it tells, since the API does not show a field that it hides. What differs is printed, except for what differs between any
// two moments: see Exclusion. While features are on, what is published has to be the same each time.
//
// # Kills
//
// The points are drawn from a seed: some right after the wish, the others between the begin of a transition and its end, as far as that has
// been learnt. How many kills met a feature on its way, and in which task, is printed at the end; Run fails if it was less than a quarter.
//
// This package is not a stable API.
package lifecycletest
