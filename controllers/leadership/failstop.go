// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"fmt"
	"time"

	"github.com/google/pprof/profile"
	"k8s.io/klog/v2"
)

// Other groups get a part of the stop timeout to release their Leases before the process ends, as long as that of the stuck group is
// held, and at least a part of the lease duration, which is half of what is left of a Lease that was not renewed.
const (
	graceShare    = 20
	patienceShare = 4
)

// grace is how long other groups have, by when the Lease of the stuck one was renewed.
func (t Timings) grace(age time.Duration) time.Duration {
	least := t.LeaseDuration / graceShare
	return max(least, min(t.StopTimeout/patienceShare, t.LeaseDuration-least-age))
}

// failStop ends the process because runnables of the group have not returned. Their Lease stays held, so that nobody else starts
// while they may still be at work; the other groups are released first, as far as they stop at once.
func (e *Elector) failStop(ctx context.Context, g *group, w *work, grace time.Duration, why error) {
	why = fmt.Errorf("group %s with Lease %s: %w", g.Name, g.Lease, why)
	e.ending.Do(func() {
		klog.FromContext(ctx).Error(why, "The process ends without releasing the Lease", "lease", g.Lease,
			"stacks", stacks(goroutinesWith(func(sample *profile.Sample) bool { return sample.HasLabel(termLabel, w.holder) })))
		e.stop(why)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		for _, other := range e.groups {
			if other == g {
				continue
			}
			select {
			case <-other.done:
			case <-timer.C:
				e.end(why)
				return
			}
		}
		e.end(why)
	})
}

// exit ends the process as programs did that could not lose a Lease and live on.
func (e *Elector) exit(ctx context.Context, g *group, why error) {
	why = fmt.Errorf("group %s with Lease %s: %w", g.Name, g.Lease, why)
	e.ending.Do(func() {
		klog.FromContext(ctx).Error(why, "The process ends, since GracefulLeaderTransition is off", "group", g.Name)
		e.end(why)
		e.stop(why)
	})
}

func (e *Elector) end(why error) {
	if e.options.BeforeExit != nil {
		e.options.BeforeExit(why)
	}
	e.options.Exit(1)
	e.ended <- why
}
