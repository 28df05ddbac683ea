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

// burden is how much longer a process waits before it takes a free Lease for each group that it leads already.
const burden = 10 * time.Millisecond

// errLate is what comes of a Lease that was acquired when its renewal was already due, or the campaign over.
var errLate = errors.New("the Lease was acquired too late to lead")

// campaign follows the Lease until it is acquired, and returns when the request that did was started. An error says that the
// context has ended.
func (g *group) campaign(ctx context.Context) (*held, time.Duration, error) {
	g.status.follows()
	lock := g.lock()
	following, stop := context.WithCancel(ctx)
	sightings := make(chan sighting)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	follower := &follower{lock: lock, retry: g.options.Timings.RetryPeriod, timeout: g.options.Timings.RenewDeadline / 2}
	watching.Go(func() { follower.run(following, sightings) })

	notBefore := g.holdBack
	fresh := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait := g.options.Timings.LeaseDuration
		if fresh {
			wait = max(g.seen.freeAt+g.candidate.burden(), notBefore) - g.clock.Elapsed()
		}
		if wait <= 0 {
			held, started, err := g.acquire(ctx, lock)
			switch {
			case err == nil:
				return held, started, nil
			case ctx.Err() != nil:
				return nil, 0, context.Cause(ctx)
			}
			notBefore = g.clock.Elapsed() + jittered(g.options.Timings.RetryPeriod)
			news := g.status.failed(err)
			if errors.Is(err, errRaced) {
				follower.lookAgain()
			} else {
				klog.FromContext(ctx).V(quietly(news)).Info("The Lease could not be acquired; trying again", "group", g.Name, "reason", err.Error())
			}
			continue
		}
		timer.Reset(min(wait, deadlineTick))
		select {
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		case <-timer.C:
		case s := <-sightings:
			if s.err != nil {
				news := g.status.failedToRead(s.err)
				klog.FromContext(ctx).V(quietly(news)).Info("The Lease could not be read; trying again", "group", g.Name, "reason", s.err.Error())
				continue
			}
			if fresh && !sameVersion(s.lease, g.seen.lease) && !g.candidate.ours(holderOf(s.lease)) {
				notBefore = 0 // the attempt that failed was about another state, and did not bring about this one
			}
			fresh = true
			g.see(s.lease)
			g.status.seen(holderOf(s.lease), g.seen.freeAt, g.candidate.copied(holderOf(s.lease)))
		}
	}
}

// quietly is the verbosity of what goes on failing: only the first time is for everybody.
func quietly(news bool) int {
	if news {
		return 0
	}
	return 1
}

// see takes in a state of the Lease.
func (g *group) see(lease *coordinationv1.Lease) {
	g.seen.saw(lease, g.clock.Elapsed(), g.options.Timings.LeaseDuration, g.candidate.ours)
}

func sameVersion(a, b *coordinationv1.Lease) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.UID == b.UID && a.ResourceVersion == b.ResourceVersion
}

func (g *group) lock() *lock {
	return &lock{
		leases: g.candidate.leases.Leases(g.Lease.Namespace), name: g.Lease, now: g.clock.Now, duration: g.options.Timings.LeaseDuration,
	}
}

// acquire writes this process into the Lease as it was last seen. The request is not broken off when the context ends: what comes
// of it has to be known.
func (g *group) acquire(ctx context.Context, lock *lock) (*held, time.Duration, error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.options.Timings.RenewDeadline/2)
	defer cancel()
	started := g.clock.Elapsed()
	lease, err := lock.acquire(request, g.seen.lease, g.candidate.nextHolder())
	if err != nil {
		return nil, 0, err
	}
	g.see(lease)
	acquired := &held{lock: lock, lease: lease}
	late := g.clock.Elapsed()-started >= g.options.Timings.RenewDeadline
	if late || ctx.Err() != nil {
		if err := acquired.release(request); err != nil {
			klog.FromContext(ctx).Info("A Lease that is of no use any more could not be released and is left to expire", "group", g.Name, "reason", err.Error())
		}
		return nil, 0, errLate
	}
	return acquired, started, nil
}
