// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// graceShare is the part of the lease duration that other groups get to release their Leases before the process ends. It is half
// of what is left of a Lease that was not renewed.
const graceShare = 20

// failStop ends the process because runners of the group have not returned. Their Lease stays held, so that nobody else starts
// while they may still be at work; the other groups are released first, as far as they stop at once.
func (c *Candidate) failStop(ctx context.Context, g *group, w *work, why error) {
	c.ending.Do(func() {
		klog.FromContext(ctx).Error(why, "The process ends without releasing the Lease", "lease", g.Lease,
			"stacks", stacks(goroutinesOf(termLabel, w.holder, func(string) bool { return true })))
		c.stop(why)
		grace := time.NewTimer(c.options.Timings.LeaseDuration / graceShare)
		defer grace.Stop()
		for _, other := range c.groups {
			if other == g {
				continue
			}
			select {
			case <-other.done:
			case <-grace.C:
				c.end(why)
				return
			}
		}
		c.end(why)
	})
}

// exit ends the process as programs did that could not lose a Lease and live on.
func (c *Candidate) exit(g *group, why error) {
	c.ending.Do(func() {
		klog.Background().Error(why, "The process ends, since GracefulLeaderTransition is off", "group", g.Name)
		c.end(why)
		c.stop(why)
	})
}

func (c *Candidate) end(why error) {
	if c.options.BeforeExit != nil {
		c.options.BeforeExit(why)
	}
	klog.Flush()
	c.options.Exit(1)
	c.ended <- why
}
