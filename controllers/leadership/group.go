// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/workloop"
)

// Group is a set of runnables under one Lease.
type Group struct {
	// Name appears in logs, metrics and health details; it is unique in the process.
	Name string
	// Lease is the coordination.k8s.io Lease that is held while the runnables run.
	Lease types.NamespacedName
	// New makes the runnables of one term, from the term's client. It starts nothing.
	New func(term *Term) ([]Runnable, error)
	// When ties the group to the state of the cluster; nil means always. See the package conditions.
	When Condition
}

// Condition calls report with true when the group is to run and with false when not, on each change, until the context
// ends. It is called once for the life of the process, by followers too, so it should cost little. Until its first report the
// group does not run. An error is logged, and the condition is run again after a pause; the group stays as it was reported last.
type Condition func(ctx context.Context, report func(bool)) error

// Why terms end that nothing is wrong with.
var (
	errStopped    = errors.New("the process is being stopped")
	errUnwanted   = errors.New("the condition of the group no longer holds")
	errHandedOver = errors.New("the group is handed to a process that leads fewer")
)

// The backoff after a term that failed doubles each time, and is reset by a term that lasted longer than maxBackoff.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// group is a Group in an elector.
type group struct {
	Group
	options Options
	clock   Clock
	elector *Elector
	metrics groupMetrics
	status  *status
	// leaks is nil without Options.DetectLeaks.
	leaks *leaks
	// done is closed when the group has ended for good.
	done     chan struct{}
	observed observation
	// notBefore is when this process may take the Lease again after a hand-over.
	notBefore time.Duration
}

// run acquires the Lease and leads while the group's condition holds, until the context ends.
func (g *group) run(ctx context.Context) {
	if g.When == nil {
		g.acquireAndLead(ctx)
		return
	}
	wanted, followed := make(chan bool), make(chan struct{})
	go func() {
		defer close(followed)
		g.followCondition(ctx, wanted)
	}()
	defer g.awaitCondition(ctx, followed)
	for on := false; ; {
		if !on {
			g.status.setOff()
			select {
			case on = <-wanted:
				continue
			case <-ctx.Done():
				return
			}
		}
		on = g.runWhile(ctx, wanted)
		if ctx.Err() != nil {
			return
		}
	}
}

// runWhile runs the group until its condition no longer holds or the context ends.
func (g *group) runWhile(ctx context.Context, wanted <-chan bool) bool {
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.acquireAndLead(running)
	}()
	for {
		select {
		case on := <-wanted:
			if on {
				continue
			}
			stop(errUnwanted)
			<-done
			return false
		case <-done:
			return true
		}
	}
}

func (g *group) followCondition(ctx context.Context, wanted chan<- bool) {
	for ctx.Err() == nil {
		err := g.condition(ctx, func(on bool) { send(ctx, wanted, on) })
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errReturned
		}
		klog.FromContext(ctx).Error(err, "Following the condition of a group; trying again", "group", g.Name)
		_ = workloop.Pause(ctx, clock.RealClock{}, jittered(g.options.Timings.RetryPeriod))
	}
}

// awaitCondition waits for When to return. It holds no Lease, so the process may end without it.
func (g *group) awaitCondition(ctx context.Context, followed <-chan struct{}) {
	timeout := time.NewTimer(g.options.Timings.StopTimeout)
	defer timeout.Stop()
	select {
	case <-followed:
	case <-timeout.C:
		klog.FromContext(ctx).Info("The condition of a group has not returned when its context ended", "group", g.Name)
	}
}

// condition calls When, and takes a panic for an error.
func (g *group) condition(ctx context.Context, report func(bool)) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = crashError(value)
		}
	}()
	return g.When(ctx, report)
}

func (g *group) acquireAndLead(ctx context.Context) {
	rest := minBackoff
	for ctx.Err() == nil {
		held, started, err := g.acquire(ctx)
		if err != nil {
			return
		}
		began := g.clock.Elapsed()
		goOn, ended := g.lead(ctx, held, started)
		if !goOn {
			return
		}
		if errors.Is(ended, errHandedOver) {
			g.notBefore = g.clock.Elapsed() + g.options.Timings.RetryPeriod
		}
		if ctx.Err() != nil || !isFailure(ended) {
			continue
		}
		g.metrics.failures.WithLabelValues(g.Name).Inc()
		if g.clock.Elapsed()-began > maxBackoff {
			rest = minBackoff
		}
		klog.FromContext(ctx).Error(ended, "The term has failed", "group", g.Name, "pause", rest)
		if g.options.ExitOnLoss {
			g.elector.exit(ctx, g, ended)
			return
		}
		g.status.backoff(ended)
		_ = workloop.Pause(ctx, clock.RealClock{}, jittered(rest))
		rest = min(2*rest, maxBackoff)
	}
}

// isFailure reports whether the runnables of the term ended it. An error of theirs may wrap anything, context.Canceled included.
func isFailure(ended error) bool {
	for _, ordinary := range []error{errStopped, errUnwanted, errHandedOver, errTaken, errNotRenewed} {
		if errors.Is(ended, ordinary) {
			return false
		}
	}
	return ended != nil
}
