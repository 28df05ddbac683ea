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
	s, healthy := newStage(t), newStage(t)
	over, switches := make(chan struct{}), make(chan bool)
	defer close(over)
	a := s.candidate("a", exiting, switched(switches),
		working(func(context.Context, *leadership.Term) error { return ignoresItsContext(over) }),
		func(p *plan) {
			p.more = []leadership.Group{{Name: "healthy", Lease: healthy.lease, New: func(term *leadership.Term) ([]leadership.Runnable, error) {
				return []leadership.Runnable{healthy.runner("a", term, nil)}, nil
			}}}
		})
	switches <- true
	holder := s.await(soon, "start", "a", 1).holder
	healthy.await(soon, "start", "a", 1)
	cancelled := time.Now()
	switches <- false // which is no concern of the healthy group
	select {
	case why := <-a.exits:
		atLeast(t, "ending", time.Since(cancelled), quick.StopTimeout)
		wantIn(t, "the reason", why.Error(), "did not return in time", "worker")
	case <-time.After(soon):
		t.Fatal("the process does not end")
	}
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
}

func TestAStuckRunnerEndsTheProcessBeforeALeaseThatWasNotRenewedExpires(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := newProxy(t)
	var clock handClock
	over := make(chan struct{})
	defer close(over)
	a := s.candidate("a", exiting, through(p.config()), clock.of,
		func(p *plan) { p.options.Timings.StopTimeout = time.Minute },
		working(func(context.Context, *leadership.Term) error { return ignoresItsContext(over) }))
	s.await(soon, "start", "a", 1)
	s.renewals(1)
	p.set(always(fault{hole: true}))
	clock.set(quick.RenewDeadline)
	s.await(soon, "told", "a", 1)
	a.role(leadership.Stopping)
	clock.set(quick.LeaseDuration*9/10 - time.Millisecond)
	a.role(leadership.Stopping)
	if len(a.exits) > 0 {
		t.Error("the process ends although the runner has time left")
	}
	clock.set(quick.LeaseDuration * 9 / 10)
	select {
	case why := <-a.exits:
		wantIn(t, "the reason", why.Error(), "did not return in time")
	case <-time.After(soon):
		t.Fatal("the process does not end")
	}
}

func TestTwoStuckGroupsEndTheProcessOnce(t *testing.T) {
	t.Parallel()
	s, other := newStage(t), newStage(t)
	over := make(chan struct{})
	defer close(over)
	stuck := func(context.Context, *leadership.Term) error { return ignoresItsContext(over) }
	a := s.candidate("a", exiting, working(stuck), func(p *plan) {
		p.more = []leadership.Group{{Name: "other", Lease: other.lease, New: func(term *leadership.Term) ([]leadership.Runnable, error) {
			return []leadership.Runnable{other.runner("a", term, stuck)}, nil
		}}}
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
	s := newStage(t)
	p := newProxy(t)
	a := s.candidate("a", exiting, through(p.config()), func(p *plan) { p.options.ExitOnLoss = true })
	s.await(soon, "start", "a", 1)
	p.set(always(fault{cut: true}))
	select {
	case why := <-a.exits:
		wantIn(t, "the reason", why.Error(), "leader election lost")
	case <-time.After(soon):
		t.Fatal("the process goes on")
	}
}

func TestExitOnLossEndsTheProcessWhenATermFails(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.candidate("a", exiting, func(p *plan) { p.options.ExitOnLoss = true },
		working(func(context.Context, *leadership.Term) error { return errors.New("it broke") }))
	select {
	case why := <-a.exits:
		wantIn(t, "the reason", why.Error(), "it broke")
	case <-time.After(soon):
		t.Fatal("the process goes on")
	}
	if got := holderOf(s.get()); got != "" {
		t.Errorf("the Lease is held by %s", got)
	}
}

// TestExitOnLossDoesNotDisturbAnOrderlyStop: the gate changes what a lost Lease does, not an orderly stop.
func TestExitOnLossDoesNotDisturbAnOrderlyStop(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.candidate("a", func(p *plan) { p.options.ExitOnLoss = true })
	s.await(soon, "start", "a", 1)
	a.stop()
	if a.err != nil {
		t.Error(a.err)
	}
	if got := holderOf(s.get()); got != "" {
		t.Errorf("the Lease is held by %s", got)
	}
}
