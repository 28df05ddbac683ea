// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install is what has to be in a cluster for the extension apiserver, and how it gets there and away again.
//
// Objects is the one place that says what there is: `annex register` applies it, `annex unregister` deletes it, `annex up`
// takes its APIServices, rights and FlowSchemas from it, and artifacts/deploy is compared with it by a test.
//
// Register changes nothing before it knows that all will succeed: no object of that name belongs to someone else, the user
// has every right, and the cluster accepts every object in a dry run. APIServices come last, since a cluster whose
// APIService has no server behind it cannot delete namespaces.
//
// A run that fails nevertheless deletes what it has created itself, which the cluster's answer to each apply says: another run may
// have been faster with any object. A namespace stays while it holds anything else. An object whose apply ended without a clear answer is
// named in the error if it is there, and stays.
//
// The CA bundle of the APIServices belongs to the extension apiserver (package rotation) unless one is given.
//
// This package is not a stable API.
package install
