// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Group is what is led together: runners under one Lease.
type Group struct {
	// Name appears in logs, metrics and health details; it is unique in the process.
	Name string
	// Lease is the coordination.k8s.io Lease that is held while the runners run.
	Lease types.NamespacedName
	// New makes the runners of one term, from the term's client. It starts nothing.
	New func(term *Term) ([]Runner, error)
	// When ties the group to the state of the cluster; nil means always. See the package conditions.
	When Condition
}

// Condition calls report with true when the group shall run and with false when not, each time that changes, until the context
// ends. It is called once for the life of the process, by followers too, so it should cost little. Until its first report the
// group does not run. An error is logged, and the condition is run again after a pause; the group stays as it was reported last.
type Condition func(ctx context.Context, report func(bool)) error
