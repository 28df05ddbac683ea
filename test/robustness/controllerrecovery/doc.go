// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllerrecovery proves that the controllers of the control plane finish what they have begun, whenever they are killed.
//
// There are two worlds of real processes: three replicas of the control plane and an extension server on an etcd of three members, and one
// `annex up`. The replicas are this package's binary, which differs from `annex controlplane` in that Services are resolved. In rounds,
// stories run side by side, each with a part of the API of its own: namespaces are made and deleted, owners deleted in every way, quotas
// crowded, also with objects that a slow webhook converts, certificates asked for, accounts and their tokens made and deleted, roles aggregated,
// objects migrated, policies checked, a definition deleted while its objects wait for others, owners and namespaces deleted while the versions
// of what they have cease to be served and come back, or the extension server is not registered or is killed. Meanwhile replicas are killed at
// random points and started again, most often the one that leads, and members of etcd are.
//
//	world_test.go      the processes
//	extension_test.go  the extension server and its kind
//	client_test.go     requests that are made until they are answered
//	proof_test.go      rounds and kills
//	ledger_test.go     what the stories have left behind, and what is to become of it
//	state_test.go      what there is, by etcd and by each replica
//	history_test.go    what may not be at any revision of etcd
//	*stories_test.go   the work
//	oracle_test.go     that the ledger and the history notice what is wrong
//
// After the last kill of a round everything has to come to the state that the ledger knows, and nothing else may have changed. Every failure
// prints the seed. What is done and killed follows from it; how that interleaves does not.
package controllerrecovery
