// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-annex/annex/controllers/leadership"
)

// renewals waits until the Lease was renewed n times.
func (s *stage) renewals(n int) {
	s.t.Helper()
	for range n {
		before := s.get().Spec.RenewTime
		eventually(s.t, quick.LeaseDuration, "the Lease is renewed", func() (bool, any) {
			now := s.get()
			return !now.Spec.RenewTime.Equal(before), now.Spec
		})
	}
}

// labelledGoroutines counts those whose labels have one text and not the other.
func labelledGoroutines(with, without string) (int, error) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return 0, err
	}
	n := 0
	for line := range strings.Lines(profile.String()) {
		if strings.HasPrefix(line, "# labels: ") && strings.Contains(line, with) && !strings.Contains(line, without) {
			n++
		}
	}
	return n, nil
}

func TestALeaderStartsItsRunnersOnceAndAFollowerNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.candidate("a")
	s.await(soon, "start", "a", 1)
	b := s.candidate("b")
	s.renewals(2)
	a.role(leadership.Leading)
	eventually(t, soon, "b knows the holder", func() (bool, any) {
		status := b.Statuses()[0]
		return status.Role == leadership.Follower && strings.HasPrefix(status.Holder, "a_"), status
	})
	for what, want := range map[string]int{"build": 1, "start": 1, "stop": 0} {
		if got := s.all(what, ""); len(got) != want {
			t.Errorf("there are %d %ss, want %d: %v", len(got), what, want, got)
		}
	}
	for who, want := range map[string]bool{"a": true, "b": false} {
		n, err := labelledGoroutines(`"leadership_group":"`+s.lease.Name+`", "leadership_runner":"worker", "leadership_term":"`+who, `"leadership_call"`)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 != want {
			t.Errorf("%s has %d goroutines of a term", who, n)
		}
	}
	if a.metric("leader_election_master_status") != 1 || b.metric("leader_election_master_status") != 0 {
		t.Error("the metric does not tell the leader")
	}
}

func TestALeaseIsRenewedWhileRunnersStopAndReleasedAfterThat(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	finish := make(chan struct{})
	a := s.candidate("a",
		func(p *plan) { p.options.Timings.StopTimeout = time.Minute },
		working(func(ctx context.Context, _ *leadership.Term) error {
			<-ctx.Done()
			<-finish
			return nil
		}))
	holder := s.await(soon, "start", "a", 1).holder
	s.candidate("b")
	a.cancel()
	s.await(soon, "told", "a", 1)
	a.role(leadership.Stopping)
	s.renewals(4) // more than a lease duration
	if got := holderOf(s.get()); got != holder {
		t.Errorf("the holder is %s while runners of %s stop", got, holder)
	}
	if started := s.all("build", "b"); len(started) > 0 {
		t.Fatal("b has begun before a's runners returned")
	}
	close(finish)
	began := s.await(soon, "start", "b", 1)
	within(t, "the hand-over", began.at.Sub(s.all("stop", "a")[0].at), 0, late)
	a.stop()
	if a.err != nil {
		t.Error(a.err)
	}
}

func TestARunnerInASlowAPICallKeepsTheLease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := newProxy(t)
	calling := make(chan struct{})
	p.set(of(http.MethodPost, "/configmaps", fault{hole: true}))
	a := s.candidate("a", through(p.config()),
		func(p *plan) { p.options.Timings.StopTimeout = time.Minute },
		working(func(ctx context.Context, term *leadership.Term) error {
			slow, err := kubernetes.NewForConfig(term.Client())
			if err != nil {
				return err
			}
			close(calling)
			_, err = slow.CoreV1().ConfigMaps("default").Create(context.WithoutCancel(ctx), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.lease.Name}}, metav1.CreateOptions{})
			if err != nil {
				t.Errorf("the slow call: %v", err)
			}
			return nil
		}))
	<-calling
	s.candidate("b")
	a.cancel()
	s.await(soon, "told", "a", 1)
	s.renewals(4)
	if started := s.all("start", "b"); len(started) > 0 {
		t.Fatal("b leads while a's call is under way")
	}
	p.set(nil)
	s.await(soon, "start", "b", 1)
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), s.lease.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the write that was waited for: %v", err)
	}
}

func TestWorkIsCancelledAtTheRenewDeadlineAndStoppedBeforeTheLeaseExpires(t *testing.T) {
	t.Parallel()
	s, stalls := newStage(t), newStalls(t)
	p := newProxy(t)
	a := s.candidate("a", through(p.config()), working(func(ctx context.Context, _ *leadership.Term) error {
		<-ctx.Done()
		timer := time.NewTimer(quick.RetryPeriod)
		<-timer.C
		return nil
	}))
	s.await(soon, "start", "a", 1)
	s.candidate("b")
	s.renewals(1)
	p.set(always(fault{hole: true}))
	told := s.await(soon, "told", "a", 1)
	stopped := s.await(soon, "stop", "a", 1)
	last := p.lastRenewal()
	// The leader counts from when it began the request, which on a busy machine reaches the proxy later.
	within(t, "from the last renewal to the end of the work", told.at.Sub(last), quick.RenewDeadline/2, stalls.latest(quick.LeaseDuration*9/10))
	within(t, "from the last renewal to the last runner", stopped.at.Sub(last), quick.RenewDeadline/2+quick.RetryPeriod, stalls.latest(quick.LeaseDuration))
	began := s.await(quick.LeaseDuration+late, "start", "b", 1)
	within(t, "from the last renewal to the next term", began.at.Sub(last), quick.LeaseDuration-500*time.Millisecond, quick.LeaseDuration+late)
	a.role(leadership.Follower)
	p.set(nil)
}

func TestALeaderThatLostItsLeaseLeadsAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := newProxy(t)
	a := s.candidate("a", through(p.config()))
	first := s.await(soon, "start", "a", 1)
	p.set(always(fault{cut: true}))
	s.await(soon, "stop", "a", 1)
	a.role(leadership.Follower)
	p.set(nil)
	second := s.await(soon, "start", "a", 2)
	if first.holder == second.holder {
		t.Errorf("two terms have the holder %s", first.holder)
	}
	a.awaitMetric(soon, 2, "leader_election_transitions_total")
	a.awaitMetric(soon, 1, "leader_election_stop_duration_seconds")
}

func TestAFailedTermIsReleasedCountedAndTriedAgain(t *testing.T) {
	t.Parallel()
	type runner = func(ctx context.Context) error
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
	for name, tc := range map[string]struct {
		fails  runner
		build  func()
		err    error
		panics float64
		says   string
	}{
		"a runner panics":             {fails: func(context.Context) error { panic("runner broke") }, panics: 1, says: "runner broke"}, //nolint:forbidigo // what is tested
		"a runner fails":              {fails: func(context.Context) error { return errors.New("runner failed") }, says: "runner failed"},
		"a runner returns":            {fails: func(context.Context) error { return nil }, says: "returned before its term ended"},
		"a runner ends its goroutine": {fails: goexit, says: "returned before its term ended"},
		"New panics":                  {build: func() { panic("New broke") }, panics: 1, says: "New broke"}, //nolint:forbidigo // what is tested
		"New fails":                   {err: errors.New("New failed"), says: "New failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			builds := 0
			c := s.candidate("a", building(func(term *leadership.Term) ([]leadership.Runner, error) {
				builds++ // terms follow each other
				runners := []leadership.Runner{s.runner("a", term, nil)}
				if builds > 1 {
					return runners, nil
				}
				if tc.build != nil {
					tc.build()
				}
				if tc.fails != nil {
					runners = append(runners, leadership.Runner{Name: "broken", Run: tc.fails}, leadership.Runner{Name: "idle", Run: wait})
				}
				return runners, tc.err
			}))
			ended := s.await(soon, "build", "a", 1)
			c.role(leadership.Resting)
			if started := len(s.all("start", "a")); tc.fails != nil && started != 1 || tc.fails == nil && started != 0 {
				t.Errorf("%d runners were started", started)
			}
			if len(s.all("stop", "a")) != len(s.all("start", "a")) {
				t.Error("a runner goes on after its term")
			}
			if lease := s.get(); holderOf(lease) != "" {
				t.Errorf("the Lease is held by %s", holderOf(lease))
			}
			wantIn(t, "the status", c.Statuses()[0].String(), tc.says)
			starts := len(s.all("start", "a"))
			again := s.await(soon, "start", "a", starts+1)
			within(t, "the rest", again.at.Sub(ended.at), time.Second, time.Second+late)
			if got := c.metric("leader_election_runner_panics_total"); got != tc.panics {
				t.Errorf("%v panics were counted, want %v", got, tc.panics)
			}
		})
	}
}
