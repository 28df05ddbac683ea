// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package poll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestUntilRepeatsTheCheckUntilItSucceeds(t *testing.T) {
	t.Parallel()
	checks := 0
	err := Until(t.Context(), time.Minute, func(context.Context) error {
		if checks++; checks < 3 {
			return errors.New("too early")
		}
		return nil
	})
	if err != nil || checks != 3 {
		t.Errorf("got %v after %d checks, want success after 3", err, checks)
	}
}

func TestUntilReturnsTheLastErrorAtTheLimit(t *testing.T) {
	t.Parallel()
	last, checks := errors.New("the last state"), 0
	err := Until(t.Context(), 2*interval, func(ctx context.Context) error {
		if checks++; checks == 1 {
			return last
		}
		// A check that hangs fails with its context, which says nothing about the state.
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, last) || !strings.HasPrefix(err.Error(), "after ") {
		t.Errorf("got %v, want the error of the last check that ended by itself", err)
	}
}

func TestUntilEndsWithAPermanentError(t *testing.T) {
	t.Parallel()
	checks := 0
	ended := errors.New("the process ended")
	err := Until(t.Context(), time.Minute, func(context.Context) error {
		checks++
		return fmt.Errorf("wait for the port: %w", Permanent(ended))
	})
	if !errors.Is(err, ended) || checks != 1 {
		t.Errorf("got %v after %d checks, want the error after one", err, checks)
	}
}

func TestUntilEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	err := Until(ctx, time.Minute, func(context.Context) error {
		cancel()
		return errors.New("not yet")
	})
	if err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("got %v, want the error of the check", err)
	}
}
