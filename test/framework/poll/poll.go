// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package poll waits for conditions. It imports nothing of Annex, so that the tests of every package can use it.
package poll

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	interval = 20 * time.Millisecond
	// attemptLimit ends a check that uses its context and hangs, as requests to a paused server do.
	attemptLimit = 10 * time.Second
)

// permanentError is an error that no further check can mend.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent marks an error of a check as final, such as the end of a process that the check waits for.
func Permanent(err error) error { return permanentError{err} }

// Until repeats check until it returns nil or a permanent error. When limit or the context is over, it returns the last error that
// check returned by itself.
func Until(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		attempt, cancelAttempt := context.WithTimeout(ctx, attemptLimit)
		err := check(attempt)
		cancelAttempt()
		if err == nil || errors.As(err, &permanentError{}) {
			return err
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("after %s: %w", time.Since(began).Round(time.Millisecond), last)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Eventually repeats check until it returns nil, and returns how long that took. When limit is over, it ends the test with what was
// waited for, which continues "wait until", and the last error of check.
func Eventually(t testing.TB, limit time.Duration, what string, check func(context.Context) error) time.Duration {
	t.Helper()
	began := time.Now()
	if err := Until(t.Context(), limit, check); err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
	return time.Since(began)
}

// Want returns an error with the observed state unless a condition holds.
func Want(holds bool, state any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("observed: %v", state)
}

// Pause waits for d, or until the context ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
