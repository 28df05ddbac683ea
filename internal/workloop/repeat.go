// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package workloop

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Repeat is when work is repeated.
type Repeat struct {
	// Interval is the time from one success to the next attempt; zero means that only a signal is followed by one.
	Interval time.Duration
	// FirstRetry is the delay after an error. It doubles with each further error, up to LastRetry, and starts anew after a signal.
	FirstRetry, LastRetry time.Duration
	// Signals are followed by an attempt at once; nil if there are none.
	Signals <-chan struct{}
	// Clock is the clock of the machine if it is nil.
	Clock clock.Clock
}

// Run repeats the work until the context ends. onError logs errors that are not those of the end of the context.
func (r Repeat) Run(ctx context.Context, work func(context.Context) error, onError func(error)) {
	for retry := r.FirstRetry; ctx.Err() == nil; {
		delay := r.Interval
		err := work(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			onError(err)
			delay, retry = retry, min(2*retry, r.LastRetry)
		default:
			retry = r.FirstRetry
		}
		if r.wait(ctx, delay) {
			retry = r.FirstRetry
		}
	}
}

// wait reports whether there was a signal before the delay was over.
func (r Repeat) wait(ctx context.Context, delay time.Duration) bool {
	var due <-chan time.Time
	if delay > 0 {
		if r.Clock == nil {
			r.Clock = clock.RealClock{}
		}
		timer := r.Clock.NewTimer(delay)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-r.Signals:
		return true
	}
	return false
}
