// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"fmt"
	"time"

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

// failStop ends the process because runners of the group have not returned. Their Lease stays held, so that nobody else starts
// while they may still be at work; the other groups are released first, as far as they stop at once.
func (c *Candidate) failStop(ctx context.Context, g *group, w *work, grace time.Duration, why error) {
	why = fmt.Errorf("group %s with Lease %s: %w", g.Name, g.Lease, why)
	c.ending.Do(func() {
		klog.FromContext(ctx).Error(why, "The process ends without releasing the Lease", "lease", g.Lease,
			"stacks", stacks(goroutinesOf(termLabel, w.holder, func(string) bool { return true })))
		c.stop(why)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		for _, other := range c.groups {
			if other == g {
				continue
			}
			select {
			case <-other.done:
			case <-timer.C:
				c.end(why)
				return
			}
		}
		c.end(why)
	})
}

// exit ends the process as programs did that could not lose a Lease and live on.
func (c *Candidate) exit(ctx context.Context, g *group, why error) {
	why = fmt.Errorf("group %s with Lease %s: %w", g.Name, g.Lease, why)
	c.ending.Do(func() {
		klog.FromContext(ctx).Error(why, "The process ends, since GracefulLeaderTransition is off", "group", g.Name)
		c.end(why)
		c.stop(why)
	})
}

func (c *Candidate) end(why error) {
	if c.options.BeforeExit != nil {
		c.options.BeforeExit(why)
	}
	c.options.Exit(1)
	c.ended <- why
}
