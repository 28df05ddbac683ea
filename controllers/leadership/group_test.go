// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTheTimesOfATermWhoseRequestsAreSlow renews every third of the lease duration, counted from the start of the last request.
func TestTheTimesOfATermWhoseRequestsAreSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b *bubbleGroup
		var writes []string
		slow := func(verb string, lasting time.Duration) {
			writes = append(writes, fmt.Sprint(verb, " ", b.now()))
			pass(lasting)
		}
		b = newBubbleGroup(t, &leaseStore{before: func(_ context.Context, verb string) error {
			switch verb {
			case "create":
				slow(verb, 2*time.Second)
			case "update":
				slow(verb, time.Second)
			}
			return nil
		}}, func(ctx context.Context) error {
			<-ctx.Done()
			pass(3 * time.Second)
			return nil
		})
		b.runFor(t, 21*time.Second, nil)
		if diff := cmp.Diff([]string{"create 0s", "update 5s", "update 10s", "update 15s", "update 20s", "update 24s"}, writes); diff != "" {
			t.Errorf("writes, of which the last releases the Lease (-want,+got):\n%s", diff)
		}
		if term, stop := b.metric(t, "term_duration_seconds"), b.metric(t, "stop_duration_seconds"); term != 22 || stop != 3 {
			t.Errorf("the term lasted %g s and stopping %g s, want 22 and 3", term, stop)
		}
	})
}

func TestAGroupThatWasHandedOverIsLeftToOthersForARetryPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleGroup(t, &leaseStore{}, untilStopped)
		b.runFor(t, time.Minute, func() {
			pass(7 * time.Second)
			handOver, _, _ := b.status.handOverFunc()
			handOver(errHandedOver)
		})
		if diff := cmp.Diff([]time.Duration{0, 7*time.Second + DefaultRetryPeriod}, b.started); diff != "" {
			t.Errorf("terms begin at (-want,+got):\n%s", diff)
		}
	})
}

// TestALostLeaseIsNoFailure waits for the next holder's Lease to expire from when the loss was noticed, although reading takes a while.
func TestALostLeaseIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		store := &leaseStore{before: func(_ context.Context, verb string) error {
			if verb == "get" {
				if reads++; reads == 3 { // the first one before the term, and the second one that notices the loss, are fast
					pass(4 * time.Second)
				}
			}
			return nil
		}}
		b := newBubbleGroup(t, store, untilStopped)
		b.runFor(t, time.Minute, func() {
			pass(7 * time.Second)
			store.take()
		})
		const noticed = 2 * DefaultLeaseDuration / renewShare
		if diff := cmp.Diff([]time.Duration{0, noticed + DefaultLeaseDuration}, b.started); diff != "" {
			t.Errorf("terms begin at (-want,+got):\n%s", diff)
		}
		if diff := cmp.Diff([]time.Duration{noticed, time.Minute}, b.ended); diff != "" {
			t.Errorf("terms end at (-want,+got):\n%s", diff)
		}
		if failures := b.metric(t, "term_failures_total"); failures != 0 {
			t.Errorf("%g terms have failed", failures)
		}
	})
}

func TestTheBackoffIsResetByATermThatLastedLongerThanTheLongestBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lasting := []time.Duration{0, maxBackoff, 0, maxBackoff + 1, 0}
		term := 0
		b := newBubbleGroup(t, &leaseStore{}, func(ctx context.Context) error {
			if term++; term > len(lasting) {
				return untilStopped(ctx)
			}
			pass(lasting[term-1])
			return errors.New("failed")
		})
		b.runFor(t, 5*time.Minute, nil)
		if len(b.started) != len(lasting)+1 {
			t.Fatalf("%d terms, want %d", len(b.started), len(lasting)+1)
		}
		for i, want := range []time.Duration{1, 2, 4, 1, 2} {
			want *= time.Second
			if got := b.started[i+1] - b.ended[i]; got < want || got > want*6/5 {
				t.Errorf("after term %d, which lasted %s, the backoff is %s, want %s and at most a fifth more", i, lasting[i], got, want)
			}
		}
		if failures := b.metric(t, "term_failures_total"); failures != float64(len(lasting)) {
			t.Errorf("%g terms have failed, want %d", failures, len(lasting))
		}
	})
}

// hang is a request that gets no answer.
func hang(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestARenewalThatHangsIsGivenUpInTimeForAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &leaseStore{}
		b := newBubbleGroup(t, store, untilStopped)
		held := b.held(t)
		store.before = hang
		r := newRenewal(held, b.newTerm(held), b.options.Timings, b.clock, b.clock.Elapsed())
		if err := r.renew(t.Context()); !errors.Is(err, context.DeadlineExceeded) || b.now() != DefaultRenewDeadline/2 {
			t.Errorf("the renewal ended after %s: %v", b.now(), err)
		}
	})
}

func TestAReleaseThatHangsIsGivenUpBeforeTheLeaseExpires(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]time.Duration{
		0: DefaultRenewDeadline / 2, 9 * time.Second: DefaultRenewDeadline / 2, 12 * time.Second: 3 * time.Second, 16 * time.Second: 0,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := &leaseStore{}
			b := newBubbleGroup(t, store, untilStopped)
			held := b.held(t)
			store.before = hang
			b.release(t.Context(), held, newRenewal(held, b.newTerm(held), b.options.Timings, b.clock, b.clock.Elapsed()-age))
			if b.now() != want {
				t.Errorf("%s after the last renewal it is given up in %s, want %s", age, b.now(), want)
			}
		})
	}
}

func TestAReleaseThatFailsIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &leaseStore{}
		b := newBubbleGroup(t, store, untilStopped)
		held := b.held(t)
		var attempts []time.Duration
		store.before = func(context.Context, string) error {
			if attempts = append(attempts, b.now()); len(attempts) < 3 {
				return errors.New("away")
			}
			return nil
		}
		b.release(t.Context(), held, newRenewal(held, b.newTerm(held), b.options.Timings, b.clock, b.clock.Elapsed()))
		if diff := cmp.Diff([]time.Duration{0, DefaultRetryPeriod / 4, DefaultRetryPeriod / 2}, attempts); diff != "" {
			t.Errorf("attempts (-want,+got):\n%s", diff)
		}
		if holder := holderOf(store.stored()); holder != "" {
			t.Errorf("the Lease is held by %s", holder)
		}
	})
}

func TestATermWithoutRunnablesLastsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		returned := make(chan error, 1)
		go func() { returned <- RunWithoutLease(ctx, func() ([]Runnable, error) { return nil, nil }) }()
		synctest.Wait()
		if len(returned) > 0 {
			t.Error("it has ended by itself")
		}
		stop()
		synctest.Wait()
		if len(returned) == 0 {
			t.Error("it has not ended when it was stopped")
		}
	})
}

func TestWhichRunnablesHaveNotReturned(t *testing.T) {
	t.Parallel()
	w := &work{}
	for _, name := range []string{"a", "b", "b", "c"} {
		w.add(name)
	}
	for _, step := range []struct {
		returned string
		want     []string
	}{{"a", []string{"b", "b", "c"}}, {"unknown", []string{"b", "b", "c"}}, {"b", []string{"b", "c"}}, {"c", []string{"b"}}} {
		w.remove(step.returned)
		if diff := cmp.Diff(step.want, w.unfinished()); diff != "" {
			t.Errorf("after %s (-want,+got):\n%s", step.returned, diff)
		}
	}
}
