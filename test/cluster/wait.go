// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is the pause between two questions.
const pollEvery = 20 * time.Millisecond

// Poll asks until there is no error, each time for the length of an attempt at most, and returns the last one when the limit is over.
func Poll(ctx context.Context, limit, attempt time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last := errors.New("not asked yet")
	for {
		asking, cancelAsking := context.WithTimeout(ctx, attempt)
		err := ask(asking)
		cancelAsking()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w, for %s", last, limit)
		}
		last = err
		Pause(ctx, pollEvery)
	}
}

// Pause waits, or until the context ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
