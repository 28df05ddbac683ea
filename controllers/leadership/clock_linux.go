// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"time"

	"golang.org/x/sys/unix"
)

// elapsed reads CLOCK_BOOTTIME. The clock behind time.Since stops while the machine is suspended, and a leader that wakes up
// would take itself for the holder of a Lease that has long been taken over.
func elapsed() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return monotonic()
	}
	return time.Duration(ts.Nano())
}
