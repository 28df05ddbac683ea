// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import "time"

// Clock is what an elector takes the time from.
type Clock struct {
	// Now is the time of day, which is written into Leases and never judged by.
	Now func() time.Time
	// Elapsed is the time since some moment in the past. It must not jump, and must run on while the machine is suspended.
	Elapsed func() time.Duration
}
