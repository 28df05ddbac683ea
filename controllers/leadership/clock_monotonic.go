// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import "time"

var processStart = time.Now()

// monotonic is the clock of systems without one that counts suspension.
func monotonic() time.Duration { return time.Since(processStart) }
