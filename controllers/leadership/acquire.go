// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"
)

// acquireDelayPerGroup delays taking a free Lease, for each group that the process leads already.
const acquireDelayPerGroup = 10 * time.Millisecond

// errLate: the Lease was acquired too late to be used.
var errLate = errors.New("the Lease was acquired too late to lead")

// acquire follows the Lease until this process holds it. It returns the start of the request that acquired the Lease; the error is
// the cause of the context's end.
func (g *group) acquire(ctx context.Context) (*heldLease, time.Duration, error) {
	g.status.setFollowing()
	lock := g.lock()
	following, stop := context.WithCancel(ctx)
	observed := make(chan observedLease)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	follower := &follower{lock: lock, retry: g.options.Timings.RetryPeriod, timeout: g.options.Timings.RenewDeadline / 2}
	watching.Go(func() { follower.run(following, observed) })

	notBefore := g.notBefore
	fresh := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := g.options.Timings.LeaseDuration
		if fresh {
			wait = g.freeIn(notBefore)
		}
		if wait <= 0 {
			held, started, err := g.tryAcquire(ctx, lock)
			switch {
			case err == nil:
				return held, started, nil
			case ctx.Err() != nil:
				return nil, 0, context.Cause(ctx)
			}
			notBefore = g.clock.Elapsed() + jittered(g.options.Timings.RetryPeriod)
			isNew := g.status.writeFailed(err)
			if errors.Is(err, errRaced) {
				follower.restart()
			} else {
				klog.FromContext(ctx).V(verbosity(isNew)).Info("The Lease could not be acquired; trying again", "group", g.Name, "reason", err.Error())
			}
			continue
		}
		timer.Reset(min(wait, deadlineTick))
		select {
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		case <-timer.C:
		case s := <-observed:
			if s.err != nil {
				isNew := g.status.readFailed(s.err)
				klog.FromContext(ctx).V(verbosity(isNew)).Info("The Lease could not be read; trying again", "group", g.Name, "reason", s.err.Error())
				continue
			}
			if fresh && !sameVersion(s.lease, g.observed.lease) && !g.elector.workHasEnded(holderOf(s.lease)) {
				notBefore = 0 // the failed attempt was about another state of the Lease
			}
			fresh = true
			g.observe(s.lease)
			g.status.observe(holderOf(s.lease), g.observed.freeAt, g.elector.checkDuplicate(holderOf(s.lease)))
		}
	}
}

// freeIn returns the delay before the group acquires the Lease.
func (g *group) freeIn(notBefore time.Duration) time.Duration {
	return max(g.observed.freeAt+g.elector.acquireDelay(), notBefore) - g.clock.Elapsed()
}

// verbosity returns the log level of a failure: repeated failures are logged at 1.
func verbosity(isNew bool) int {
	if isNew {
		return 0
	}
	return 1
}

// observe records a state of the Lease.
func (g *group) observe(lease *coordinationv1.Lease) {
	g.observed.observe(lease, g.clock.Elapsed(), g.options.Timings.LeaseDuration, g.elector.workHasEnded)
}

func sameVersion(a, b *coordinationv1.Lease) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}

func (g *group) lock() *lock {
	return &lock{
		leases: g.elector.leases.Leases(g.Lease.Namespace), name: g.Lease, now: g.clock.Now, duration: g.options.Timings.LeaseDuration,
	}
}

// tryAcquire writes this process into the Lease as it was last observed. The request outlives the context, since its outcome has to be
// known.
func (g *group) tryAcquire(ctx context.Context, lock *lock) (*heldLease, time.Duration, error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.options.Timings.RenewDeadline/2)
	defer cancel()
	started := g.clock.Elapsed()
	lease, err := lock.acquire(request, g.observed.lease, g.elector.nextHolder())
	if err != nil {
		return nil, 0, err
	}
	g.observe(lease)
	acquired := &heldLease{lock: lock, lease: lease}
	late := g.clock.Elapsed()-started >= g.options.Timings.RenewDeadline
	if late || ctx.Err() != nil {
		if err := acquired.release(request); err != nil {
			klog.FromContext(ctx).Info("A Lease that is of no use any more could not be released and is left to expire", "group", g.Name, "reason", err.Error())
		}
		return nil, 0, errLate
	}
	return acquired, started, nil
}
