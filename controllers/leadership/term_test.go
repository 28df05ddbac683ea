// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/controllers/leadership"
)

// renewals waits until the Lease was renewed n times.
func (s *stage) renewals(n int) {
	s.t.Helper()
	for range n {
		before := s.get().Spec.RenewTime
		eventually(s.t, soon, "the Lease is renewed", func() (bool, any) {
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
	inBubble(t, func(t *testing.T, s *stage) {
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
	})
}

func TestALeaseIsRenewedWhileRunnersStopAndReleasedAfterThat(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
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
		s.await(soon, "start", "b", 1)
		a.stop()
		if a.err != nil {
			t.Error(a.err)
		}
	})
}

func TestARunnerInASlowAPICallKeepsTheLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		p := newFaults()
		calling := make(chan struct{})
		p.set(of(http.MethodPost, "/configmaps", fault{hole: true}))
		a := s.candidate("a", through(p),
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
		if _, err := s.client.CoreV1().ConfigMaps("default").Get(t.Context(), s.lease.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("the write that was waited for: %v", err)
		}
	})
}

func TestWorkIsCancelledAtTheRenewDeadlineAndStoppedBeforeTheLeaseExpires(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		f := newFaults()
		a := s.candidate("a", through(f))
		s.await(soon, "start", "a", 1)
		s.candidate("b")
		s.renewals(1)
		renewed := s.get().Spec.RenewTime.Time
		f.set(always(fault{hole: true}))
		wantTook(t, "stopping", s.await(soon, "stop", "a", 1).at.Sub(renewed), quick.RenewDeadline)
		wantTook(t, "taking the Lease over", s.await(soon, "start", "b", 1).at.Sub(renewed), quick.LeaseDuration)
		a.role(leadership.Follower)
	})
}

func TestALeaderThatLostItsLeaseLeadsAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		p := newFaults()
		a := s.candidate("a", through(p))
		first := s.await(soon, "start", "a", 1)
		p.set(always(fault{cut: true}))
		wantTook(t, "stopping", s.await(soon, "stop", "a", 1).at.Sub(first.at), quick.RenewDeadline)
		a.role(leadership.Follower)
		p.set(nil)
		second := s.await(soon, "start", "a", 2)
		if first.holder == second.holder {
			t.Errorf("two terms have the holder %s", first.holder)
		}
		a.awaitMetric(soon, 2, "leader_election_transitions_total")
		a.awaitMetric(soon, 1, "leader_election_stop_duration_seconds")
	})
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
		"a runner panics": {fails: func(context.Context) error { panic("runner broke") }, panics: 1, says: "runner broke"}, //nolint:forbidigo // what is tested
		"a goroutine panics": {fails: func(ctx context.Context) error {
			var running sync.WaitGroup
			defer running.Wait()
			leadership.Go(ctx, &running, func() { panic("goroutine broke") }) //nolint:forbidigo // what is tested
			return wait(ctx)
		}, panics: 1, says: "goroutine broke"},
		"a call in a goroutine panics": {fails: func(ctx context.Context) error {
			var running sync.WaitGroup
			running.Go(func() {
				if err := leadership.Call(ctx, func(context.Context) error { panic("call broke") }); err == nil { //nolint:forbidigo // what is tested
					t.Error("a call that panicked is taken for done")
				}
			})
			running.Wait()
			return wait(ctx)
		}, panics: 1, says: "call broke"},
		"an event handler panics": {fails: func(ctx context.Context) error {
			broken := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("handler broke") }} //nolint:forbidigo // what is tested
			handler := leadership.EventHandler(ctx, broken)
			var running sync.WaitGroup
			running.Go(func() { handler.OnAdd("object", true) })
			running.Wait()
			return wait(ctx)
		}, panics: 1, says: "handler broke"},
		"a runner fails": {fails: func(context.Context) error { return errors.New("runner failed") }, says: "runner failed"},
		"a runner fails since a call of its own was cancelled": {fails: func(context.Context) error {
			return fmt.Errorf("runner gave up: %w", context.Canceled)
		}, says: "runner gave up"},
		"a runner returns":            {fails: func(context.Context) error { return nil }, says: "returned before its term ended"},
		"a runner ends its goroutine": {fails: goexit, says: "returned before its term ended"},
		"New panics":                  {build: func() { panic("New broke") }, panics: 1, says: "New broke"}, //nolint:forbidigo // what is tested
		"New fails":                   {err: errors.New("New failed"), says: "New failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *stage) {
				builds := 0
				c := s.candidate("a", building(func(term *leadership.Term) ([]leadership.Runnable, error) {
					builds++ // terms follow each other
					runnables := []leadership.Runnable{s.runner("a", term, nil)}
					if builds > 1 {
						return runnables, nil
					}
					if tc.build != nil {
						tc.build()
					}
					if tc.fails != nil {
						runnables = append(runnables, leadership.Runnable{Name: "broken", Run: tc.fails}, leadership.Runnable{Name: "idle", Run: wait})
					}
					return runnables, tc.err
				}))
				ended := s.await(soon, "build", "a", 1)
				c.role(leadership.BackingOff)
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
				if rest := again.at.Sub(ended.at); rest < time.Second || rest > 1200*time.Millisecond {
					t.Errorf("the next term begins after %s", rest)
				}
				if got := c.metric("leader_election_term_failures_total"); got != 1 {
					t.Errorf("%v failed terms were counted, want 1", got)
				}
				if got := c.metric("leader_election_runner_panics_total"); got != tc.panics {
					t.Errorf("%v panics were counted, want %v", got, tc.panics)
				}
			})
		})
	}
}

func TestTheRestAfterFailedTermsDoubles(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		c := s.candidate("a", working(func(context.Context, *leadership.Term) error {
			return fmt.Errorf("a call of the runner was cancelled: %w", context.Canceled)
		}))
		s.await(soon, "start", "a", 3)
		wantIn(t, "the log", c.log.String(), `pause="1s"`, `pause="2s"`)
	})
}
