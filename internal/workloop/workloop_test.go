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
	"k8s.io/client-go/util/workqueue"

	"github.com/kube-annex/annex/internal/workloop"
)

func TestRun(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	type outcome struct {
		after time.Duration
		err   error
	}
	for name, tc := range map[string]struct {
		outcomes []outcome
		// want lists when the key was reconciled.
		want []time.Duration
	}{
		"success":                   {[]outcome{{0, nil}}, []time.Duration{0}},
		"success, and to be again":  {[]outcome{{time.Minute, nil}, {0, nil}}, []time.Duration{0, time.Minute}},
		"errors":                    {[]outcome{{0, away}, {0, away}, {0, nil}}, []time.Duration{0, time.Second, 3 * time.Second}},
		"error, and to be again":    {[]outcome{{time.Millisecond, away}, {0, nil}}, []time.Duration{0, time.Millisecond}},
		"errors apart by a success": {[]outcome{{0, away}, {time.Minute, nil}, {0, away}, {0, nil}}, []time.Duration{0, time.Second, 61 * time.Second, 62 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour))
				start := time.Now()
				var got []time.Duration
				var logged, failures int
				reconcile := func(context.Context, string) (time.Duration, error) {
					var next outcome
					if len(got) < len(tc.outcomes) {
						next = tc.outcomes[len(got)]
					}
					got = append(got, time.Since(start))
					if next.err != nil {
						failures++
					}
					return next.after, next.err
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					workloop.Run(t.Context(), queue, reconcile, func(string, error) { logged++ })
				}()
				queue.Add("key")
				time.Sleep(24 * time.Hour) //nolint:forbidigo // in a bubble, it takes no time
				queue.ShutDown()
				<-done
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

func TestRunDropsWhatIsQueuedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		attempts := 0
		reconcile := func(context.Context, string) (time.Duration, error) {
			attempts++
			cancel()
			return 0, errors.New("cut off")
		}
		queue.Add("first")
		queue.Add("second")
		queue.ShutDown()
		workloop.Run(ctx, queue, reconcile, func(_ string, err error) { t.Errorf("logged %v after the end of the context", err) })
		if attempts != 1 {
			t.Errorf("%d keys were reconciled, want 1", attempts)
		}
		if n := queue.NumRequeues("first"); n != 0 {
			t.Errorf("the key of the failure was requeued %d times", n)
		}
	})
}
