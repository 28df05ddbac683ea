// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/kube-annex/annex/controllers/leadership"
)

// goexit ends its goroutine without returning, as t.FailNow does.
func goexit(context.Context) error {
	runtime.Goexit()
	return nil
}

// ignoresItsContext goes on until the test ends.
func ignoresItsContext(over <-chan struct{}) error {
	<-over
	return nil
}

func TestAStuckRunnerEndsTheProcessWithoutReleasingItsLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		healthy := s.another()
		over, switches := make(chan struct{}), make(chan bool)
		defer close(over)
		a := s.candidate("a", exiting, switched(switches),
			working(func(context.Context, *leadership.Term) error { return ignoresItsContext(over) }),
			func(p *plan) { p.more = []leadership.Group{healthy.group("a", nil)} })
		switches <- true
		holder := s.await(soon, "start", "a", 1).holder
		healthy.await(soon, "start", "a", 1)
		cancelled := time.Now()
		switches <- false // which is no concern of the healthy group
		a.awaitExit("did not return in time", "worker")
		wantTook(t, "ending", time.Since(cancelled), quick.StopTimeout)
		if got := holderOf(healthy.get()); got != "" {
			t.Errorf("the Lease of the healthy group is held by %s", got)
		}
		if got := holderOf(s.get()); got != holder {
			t.Errorf("the Lease of the stuck group is held by %q, want %s", got, holder)
		}
		wantIn(t, "the log", a.log.String(), "ignoresItsContext", "without releasing the Lease")
		<-a.done
		if a.err == nil {
			t.Error("Run returned no error")
		}
		if got := holderOf(s.get()); got != holder {
			t.Errorf("after the end, the Lease of the stuck group is held by %q, want %s", got, holder)
		}
	})
}

func TestAStuckRunnerEndsTheProcessBeforeALeaseThatWasNotRenewedExpires(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		f := newFaults()
		over := make(chan struct{})
		defer close(over)
		a := s.candidate("a", exiting, through(f),
			func(p *plan) { p.options.Timings.StopTimeout = time.Minute },
			working(func(context.Context, *leadership.Term) error { return ignoresItsContext(over) }))
		s.await(soon, "start", "a", 1)
		s.renewals(1)
		f.set(always(fault{hole: true}))
		renewed := s.get().Spec.RenewTime
		wantTook(t, "telling the runner", s.await(soon, "told", "a", 1).at.Sub(renewed.Time), quick.RenewDeadline)
		a.awaitExit("did not return in time")
		wantTook(t, "ending", time.Since(renewed.Time), quick.LeaseDuration*9/10)
	})
}

// TestTwoStuckGroupsEndTheProcessOnce is in no bubble: a group that waits for the mutex of a sync.Once holds up the time of a bubble.
func TestTwoStuckGroupsEndTheProcessOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	other := s.another()
	over := make(chan struct{})
	defer close(over)
	stuck := func(context.Context, *leadership.Term) error { return ignoresItsContext(over) }
	a := s.candidate("a", exiting, working(stuck), func(p *plan) {
		p.more = []leadership.Group{other.group("a", stuck)}
		p.options.Timings = childTimings
		p.options.Timings.StopTimeout = time.Second
	})
	s.await(soon, "start", "a", 1)
	other.await(soon, "start", "a", 1)
	a.cancel()
	<-a.done
	if n := len(a.exits); n != 1 {
		t.Errorf("the process was ended %d times", n)
	}
	if a.err == nil {
		t.Error("Run returned no error")
	}
}

func TestExitOnLossEndsTheProcess(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		p := newFaults()
		a := s.candidate("a", exiting, through(p), func(p *plan) { p.options.ExitOnLoss = true })
		s.await(soon, "start", "a", 1)
		p.set(always(fault{cut: true}))
		a.awaitExit("leader election lost")
	})
}

func TestExitOnLossEndsTheProcessWhenATermFails(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		a := s.candidate("a", exiting, func(p *plan) { p.options.ExitOnLoss = true },
			working(func(context.Context, *leadership.Term) error { return errors.New("it broke") }))
		a.awaitExit("it broke")
		if got := holderOf(s.get()); got != "" {
			t.Errorf("the Lease is held by %s", got)
		}
	})
}

// TestExitOnLossDoesNotDisturbAnOrderlyStop: the gate changes what a lost Lease does, not an orderly stop.
func TestExitOnLossDoesNotDisturbAnOrderlyStop(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		a := s.candidate("a", func(p *plan) { p.options.ExitOnLoss = true })
		s.await(soon, "start", "a", 1)
		a.stop()
		if a.err != nil {
			t.Error(a.err)
		}
		if got := holderOf(s.get()); got != "" {
			t.Errorf("the Lease is held by %s", got)
		}
	})
}
