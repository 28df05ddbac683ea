// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/internal/workloop"
)

// errStuck is why the process ends when runnables do not return.
var errStuck = errors.New("runners did not return in time")

// lead runs one term: from the Lease that was acquired by a request started at the given time, to its release. It returns
// whether the group may go on, and why the term ended.
func (g *group) lead(ctx context.Context, held *heldLease, started time.Duration) (goOn bool, ended error) {
	ctx, handOver := context.WithCancelCause(ctx)
	defer handOver(nil)
	term := g.newTerm(held)
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "group", g.Name, "term", term.fence.Holder)
	ctx = klog.NewContext(ctx, logger)
	base := context.WithoutCancel(ctx)

	renewing, stopRenewing := context.WithCancel(base)
	renewal := newRenewal(held, term, g.options.Timings, g.clock, started)
	var renewals sync.WaitGroup
	renewals.Go(func() { renewal.run(renewing) })
	defer renewals.Wait()
	defer stopRenewing()

	began := g.clock.Elapsed()
	work := newWork(g, term)
	working, stopWork := context.WithCancelCause(base)
	defer stopWork(nil)
	g.status.setStarting(term, work, handOver)
	g.metrics.transitions.WithLabelValues(g.Name).Inc()
	g.metrics.setLeading(true)
	logger.Info("Acquired the Lease", "lease", g.Lease, "transitions", term.fence.Transitions)
	go work.run(working, func() ([]Runnable, error) { return g.New(term) })

	lost := false
	select {
	case <-ctx.Done():
		ended = context.Cause(ctx)
	case <-renewal.lost:
		ended, lost = renewal.why, true
	case <-work.ending:
	}
	if lost && g.options.ExitOnLoss {
		g.elector.exit(ctx, g, fmt.Errorf("leader election lost: %w", ended))
		return false, ended
	}
	stopping := g.clock.Elapsed()
	g.status.setStopping()
	stopWork(ended)
	if waitForRunnables && !g.awaitRunnables(work, renewal, stopping) {
		g.elector.failStop(base, g, work, g.options.Timings.grace(renewal.age()), fmt.Errorf("%w: %v", errStuck, work.unfinished()))
		return false, errStuck
	}
	if waitForRunnables && work.failure != nil {
		ended = work.failure
	}
	g.metrics.stopSeconds.WithLabelValues(g.Name).Observe((g.clock.Elapsed() - stopping).Seconds())
	stopRenewing()
	renewals.Wait()
	g.metrics.setLeading(false)
	g.metrics.termSeconds.WithLabelValues(g.Name).Observe((g.clock.Elapsed() - began).Seconds())
	logger.Info("The term has ended", "reason", ended, "stopped", g.clock.Elapsed()-stopping)
	g.release(base, held, renewal)
	if held.duplicate {
		g.elector.rotateIdentity()
	}
	if held.newHolder != nil {
		g.observe(held.newHolder)
	}
	g.status.setFollowing()
	if g.leaks != nil {
		g.leaks.termEnded()
	}
	return true, ended
}

func (g *group) newTerm(held *heldLease) *Term {
	fence := fencing.Current(held.lease)
	t := &Term{
		fence: fence, base: g.options.Client, markWrites: g.options.MarkWrites, metrics: g.metrics, clock: g.clock, mux: g.elector.mux,
		labels: pprof.WithLabels(context.Background(), pprof.Labels(groupLabel, g.Name, termLabel, fence.Holder)),
		checks: map[string]func(*http.Request) error{},
	}
	t.lifetime, t.end = context.WithCancelCause(context.Background())
	return t
}

// awaitRunnables waits until all runnables have returned, as long as the Lease is held for sure and their time to stop is not over. In
// a process that was paused past its Lease they are told to stop only now; their clients have refused to send since, so they get a
// moment to return, lest every machine that was suspended comes back without its processes.
func (g *group) awaitRunnables(work *work, renewal *renewal, stopping time.Duration) bool {
	for {
		stoppingFor := g.clock.Elapsed() - stopping
		left := max(g.options.Timings.usable()-renewal.age(), g.options.Timings.LeaseDuration/stopShare-stoppingFor)
		left = min(left, g.options.Timings.StopTimeout-stoppingFor)
		if left <= 0 {
			select {
			case <-work.finished:
				return true
			default:
				return false
			}
		}
		timer := time.NewTimer(min(left, deadlineTick))
		select {
		case <-work.finished:
			timer.Stop()
			return true
		case <-timer.C:
		}
	}
}

// release gives the Lease back, unless it is someone else's by now. Where that fails it expires.
func (g *group) release(ctx context.Context, held *heldLease, renewal *renewal) {
	if renewal.taken.Load() {
		return
	}
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(ctx, min(g.options.Timings.RenewDeadline/2, g.options.Timings.LeaseDuration-renewal.age()))
	defer cancel()
	for {
		err := held.release(ctx)
		switch {
		case err == nil:
			logger.Info("Released the Lease", "lease", g.Lease)
			return
		case errors.Is(err, errTaken):
			return
		case ctx.Err() == nil && (apierrors.IsConflict(err) || workloop.Pause(ctx, clock.RealClock{}, g.options.Timings.RetryPeriod/4) == nil):
			continue
		}
		logger.Info("The Lease could not be released and is left to expire", "lease", g.Lease, "reason", err.Error())
		return
	}
}
