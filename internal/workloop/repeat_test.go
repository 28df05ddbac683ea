// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package workloop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/internal/workloop"
)

func TestRepeat(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	const s = time.Second
	for name, tc := range map[string]struct {
		interval time.Duration
		// outcomes are those of the first attempts; later ones succeed.
		outcomes []error
		// signals are when there is a signal.
		signals []time.Duration
		// want lists the times of the attempts in the first minute.
		want []time.Duration
	}{
		"success":                    {interval: 25 * s, want: []time.Duration{0, 25 * s, 50 * s}},
		"errors":                     {interval: 30 * s, outcomes: []error{away, away, away, away}, want: []time.Duration{0, s, 3 * s, 7 * s, 11 * s, 41 * s}},
		"an error after a success":   {interval: 30 * s, outcomes: []error{away, away, nil, away}, want: []time.Duration{0, s, 3 * s, 33 * s, 34 * s}},
		"a signal":                   {interval: 40 * s, signals: []time.Duration{15 * s}, want: []time.Duration{0, 15 * s, 55 * s}},
		"a signal among errors":      {interval: 50 * s, outcomes: []error{away, away, away, away}, signals: []time.Duration{5 * s}, want: []time.Duration{0, s, 3 * s, 5 * s, 6 * s, 56 * s}},
		"signals only":               {signals: []time.Duration{15 * s}, want: []time.Duration{0, 15 * s}},
		"signals only, and an error": {outcomes: []error{nil, away}, signals: []time.Duration{15 * s}, want: []time.Duration{0, 15 * s, 16 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				signals := make(chan struct{})
				go func() {
					start := time.Now()
					for _, at := range tc.signals {
						time.Sleep(at - time.Since(start)) //nolint:forbidigo // in a bubble, it takes no time
						signals <- struct{}{}
					}
				}()
				start, logged, failures := time.Now(), 0, 0
				var got []time.Duration
				work := func(context.Context) error {
					var err error
					if len(got) < len(tc.outcomes) {
						err = tc.outcomes[len(got)]
					}
					got = append(got, time.Since(start))
					if err != nil {
						failures++
					}
					return err
				}
				workloop.Repeat{Interval: tc.interval, FirstRetry: s, LastRetry: 4 * s, Signals: signals}.Run(ctx, work, func(error) { logged++ })
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("times of the attempts (-want,+got):\n%s", diff)
				}
				if logged != failures {
					t.Errorf("%d of %d errors were logged", logged, failures)
				}
			})
		})
	}
}

func TestRepeatEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	attempts := 0
	workloop.Repeat{Interval: time.Nanosecond, FirstRetry: time.Nanosecond}.Run(ctx, func(context.Context) error {
		attempts++
		cancel()
		return errors.New("cut off")
	}, func(err error) { t.Errorf("logged %v after the end of the context", err) })
	if attempts != 1 {
		t.Errorf("the work was done %d times, want once", attempts)
	}
}
