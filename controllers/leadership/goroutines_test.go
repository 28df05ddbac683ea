// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTheLargestLeakIsFound has more goroutines with one stack than the rest of the process, so that the profile begins with them.
func TestTheLargestLeakIsFound(t *testing.T) {
	t.Parallel()
	const n = 2000
	over := make(chan struct{})
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			labelled(t.Context(), t.Name(), "former", "runner", func(context.Context) {
				started.Done()
				<-over
			})
		})
	}
	started.Wait()
	found := total(leftOver(t.Name(), "current", nil, true))
	close(over)
	ended.Wait()
	if found != n {
		t.Errorf("%d goroutines are left over, want %d", found, n)
	}
}

// TestALeakIsReportedWhenItLasts looks twice, since what a term has started may need a moment to end.
func TestALeakIsReportedWhenItLasts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleGroup(t, &leaseStore{}, untilStopped)
		b.Name = t.Name() // goroutines are looked for in the whole process
		l := newLeaks(b.group)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { l.run(ctx) })
		for _, tc := range []struct {
			lasting time.Duration
			want    float64
		}{{3 * time.Second, 0}, {time.Minute, 1}, {500 * time.Millisecond, 0}} {
			running.Go(func() {
				labelled(t.Context(), b.Name, "former", "runner", func(context.Context) { pass(tc.lasting) })
			})
			l.termEnded()
			pass(10 * time.Second)
			if got := b.metric(t, "leaked_goroutines"); got != tc.want {
				t.Errorf("%g goroutines are left behind by one that lasts %s, want %g", got, tc.lasting, tc.want)
			}
			pass(time.Hour)
		}
		stop()
		running.Wait()
	})
}
