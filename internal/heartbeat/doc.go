// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package heartbeat keeps a Lease that says that a process lives, and observes those of other processes.
//
// k8s.io/component-helpers/apimachinery/lease keeps such a Lease, too, but does not fit here: it deletes the Lease by its name when it
// stops, also after a successor of the same name has taken the Lease over (TestTheLibraryDeletesTheLeaseOfASuccessor runs it), and it never
// sets the holder of a Lease that exists, so that a successor cannot take one over.
package heartbeat
