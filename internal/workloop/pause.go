// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package workloop

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Pause waits for a time or until the context ends, and returns the error of the context.
func Pause(ctx context.Context, c clock.Clock, d time.Duration) error {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
	return ctx.Err()
}
