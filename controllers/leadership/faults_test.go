// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/controllers/leadership"
)

// TestNoTwoLeadersUnderFaults has three electors whose ways to the server fail at random; the stage fails the test when two are
// at work.
func TestNoTwoLeadersUnderFaults(t *testing.T) {
	t.Parallel()
	seed := *seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with: go test -race ./controllers/leadership -run %s -annex.seed %d", t.Name(), seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStage(t)
	timings := leadership.Timings{
		LeaseDuration: 2 * time.Second, RenewDeadline: 1200 * time.Millisecond, RetryPeriod: 200 * time.Millisecond, StopTimeout: quick.StopTimeout,
	}
	leases := func(f fault) func(*http.Request) fault { return of("PUT POST", "/leases", f) }
	faults := map[string]func(*http.Request) fault{
		"away": always(fault{cut: true}), "black hole": always(fault{hole: true}),
		"slow": always(fault{delay: 300 * time.Millisecond}), "too slow": always(fault{delay: timings.RenewDeadline}),
		"403": leases(fault{status: 403}), "409": leases(fault{status: 409}), "429": leases(fault{status: 429}), "500": leases(fault{status: 500}),
		"answers lost": leases(fault{lose: true}), "reads fail": of("GET", "/leases", fault{status: 500}), "well": nil,
	}
	names := []string{"away", "black hole", "slow", "too slow", "403", "409", "429", "500", "answers lost", "reads fail", "well"}
	ways := make([]*proxy, 3)
	for i := range ways {
		ways[i] = newProxy(t)
		s.candidate(fmt.Sprint("candidate", i), through(ways[i].config()), func(p *plan) { p.options.Timings = timings })
	}
	s.await(soon, "start", "", 1)
	for range 30 {
		way, name := random.IntN(len(ways)), names[random.IntN(len(names))]
		ways[way].set(faults[name])
		timer := time.NewTimer(time.Duration(random.IntN(800)) * time.Millisecond)
		<-timer.C
	}
	for _, way := range ways {
		way.set(nil)
	}
	terms := len(s.all("start", ""))
	stopped := len(s.all("stop", ""))
	if terms == stopped {
		s.await(quick.LeaseDuration+soon, "start", "", terms+1)
	}
	t.Logf("there were %d terms", len(s.all("start", "")))
}

// TestEveryFaultIsOvercomeUnaided has the only elector lose its Lease to each fault, or keep it.
func TestEveryFaultIsOvercomeUnaided(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"403": {status: 403}, "409": {status: 409}, "429": {status: 429}, "500": {status: 500}, "cut": {cut: true}, "lost answers": {lose: true}, "black hole": {hole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			p := newProxy(t)
			a := s.candidate("a", through(p.config()))
			s.await(soon, "start", "a", 1)
			p.set(of("PUT", "/leases", f))
			if !f.lose { // what was written without an answer is known by its time
				s.await(soon, "stop", "a", 1)
			} else {
				s.renewals(3)
			}
			p.set(nil)
			eventually(t, soon, "a leads", func() (bool, any) {
				status := a.Statuses()[0]
				return status.Role == leadership.Leading && status.Err == nil, status
			})
		})
	}
}

// TestFailuresAreNotAnsweredWithAStorm has every write refused, in ways after which another try may be made at once, and reads fail.
func TestFailuresAreNotAnsweredWithAStorm(t *testing.T) {
	t.Parallel()
	for name, leads := range map[string]bool{"of a leader": true, "of a follower": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			p := newProxy(t)
			if !leads {
				s.hold("gone", time.Second)
			}
			a := s.candidate("a", through(p.config()))
			if leads {
				s.await(soon, "start", "a", 1)
			} else {
				a.role(leadership.Follower)
			}
			var requests atomic.Int64
			p.set(func(r *http.Request) fault {
				if !strings.Contains(r.URL.Path, "/leases") {
					return fault{}
				}
				requests.Add(1)
				switch {
				case r.Method == http.MethodPut:
					return fault{status: 409}
				case leads:
					return fault{status: 403}
				}
				return fault{}
			})
			throughout(t, 20*quick.RetryPeriod, "requests are few", func() (bool, any) {
				n := requests.Load()
				return n < 100, n
			})
			if requests.Load() == 0 {
				t.Error("nothing was tried")
			}
		})
	}
}

func TestAnAmbiguousAcquireIsSettled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := newProxy(t)
	p.set(of("POST PUT", "/leases", fault{lose: true}))
	s.candidate("a", through(p.config()))
	eventually(t, soon, "the Lease is held without a's knowledge", func() (bool, any) {
		list, err := client.CoordinationV1().Leases(s.lease.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + s.lease.Name})
		return err == nil && len(list.Items) == 1 && holderOf(&list.Items[0]) != "", err
	})
	if built := s.all("build", ""); len(built) > 0 {
		t.Error("a term began although it is not known to be held")
	}
	p.set(nil)
	s.await(soon, "start", "a", 1)
}

func TestTheTimeOfDayDoesNotMatter(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"forward": time.Hour, "backward": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			var offsets [2]atomic.Int64
			for i, who := range []string{"a", "b"} {
				s.candidate(who, func(p *plan) {
					p.options.Clock.Now = func() time.Time { return time.Now().Add(time.Duration(offsets[i].Load())) }
				})
				s.await(soon, "start", "a", 1)
			}
			for i := range offsets {
				offsets[i].Store(int64(jump))
				throughout(t, quick.LeaseDuration+time.Second, "a leads", func() (bool, any) {
					return len(s.all("start", "")) == 1 && len(s.all("told", "")) == 0, s.all("start", "")
				})
			}
		})
	}
}

func TestASuspendedMachineComesBackAsAFollower(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	p := newProxy(t)
	var slept atomic.Int64
	began := time.Now()
	a := s.candidate("a", unhurried, through(p.config()), func(p *plan) {
		p.options.Clock.Elapsed = func() time.Duration { return time.Since(began) + time.Duration(slept.Load()) }
	})
	first := s.await(soon, "start", "a", 1)
	p.set(of("PUT", "/leases", fault{hole: true})) // it would be the leader still if it could renew, and nobody has taken the Lease
	slept.Store(int64(2 * time.Hour))
	s.await(soon, "stop", "a", 1) // timers, which stood still, would run for another 40 minutes
	p.set(nil)
	if second := s.await(soon, "start", "a", 2); first.holder == second.holder {
		t.Error("the term goes on")
	}
	wantIn(t, "the log", a.log.String(), "the last renewal was 2h0m")
}

// TestALeaseEditedByHandIsTakenOnlyWhenTheLastRenewalHasExpired has a holder that only renews, and somebody who meddles.
func TestALeaseEditedByHandIsTakenOnlyWhenTheLastRenewalHasExpired(t *testing.T) {
	t.Parallel()
	const duration = 3 * time.Second
	for name, tc := range map[string]struct {
		edit   func(lease *coordinationv1.Lease)
		remove bool
		// anew says that the edit counts as a renewal.
		anew bool
	}{
		"nothing":            {edit: func(*coordinationv1.Lease) {}},
		"deleted":            {remove: true},
		"the holder cleared": {edit: func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") }},
		"released by hand, in another term's name": {edit: func(lease *coordinationv1.Lease) {
			lease.Spec.HolderIdentity = nil
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, fencing.ReleasedAnnotation, string(lease.UID)+";6;other")
		}},
		"the duration shortened":           {edit: func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = ptr.To[int32](1) }},
		"the duration very much prolonged": {edit: func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = ptr.To[int32](100000) }},
		"the times cleared": {anew: true, edit: func(lease *coordinationv1.Lease) {
			lease.Spec.RenewTime, lease.Spec.AcquireTime = nil, nil
		}},
		"given to another, for a second": {edit: func(lease *coordinationv1.Lease) {
			lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("another"), ptr.To[int32](1)
		}, anew: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.hold("other", duration)
			a := s.candidate("a")
			eventually(t, soon, "a has seen the holder", func() (bool, any) {
				status := a.Statuses()[0]
				return status.Holder == "other", status
			})
			renewed := time.Now()
			s.edit(func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = ptr.To(metav1.NowMicro()) })
			if tc.remove {
				if err := client.CoordinationV1().Leases(s.lease.Namespace).Delete(t.Context(), s.lease.Name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			} else {
				s.edit(tc.edit)
			}
			edited := time.Now()
			began := s.await(2*duration+soon, "start", "a", 1).at
			if tc.anew {
				renewed = edited
			}
			atLeast(t, "waiting", began.Sub(renewed), duration-100*time.Millisecond)
		})
	}
}

// TestALeaderWhoseLeaseIsMeddledWithStops: whoever the Lease names now, it is not this term.
func TestALeaderWhoseLeaseIsMeddledWithStops(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(lease *coordinationv1.Lease){
		"the holder cleared":      func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") },
		"given to another":        func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("another") },
		"the transitions changed": func(lease *coordinationv1.Lease) { lease.Spec.LeaseTransitions = ptr.To[int32](70) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.candidate("a")
			s.await(soon, "start", "a", 1)
			s.edit(edit)
			edited := time.Now()
			s.await(soon, "stop", "a", 1)
			again := s.await(quick.LeaseDuration+soon, "start", "a", 2)
			if strings.HasPrefix(name, "given") {
				atLeast(t, "waiting for the other", again.at.Sub(edited), quick.LeaseDuration-100*time.Millisecond)
			}
		})
	}
	t.Run("a label added", func(t *testing.T) {
		t.Parallel()
		s := newStage(t)
		s.candidate("a")
		s.await(soon, "start", "a", 1)
		s.edit(func(lease *coordinationv1.Lease) { lease.Labels = map[string]string{"touched": "true"} })
		s.renewals(3)
		if len(s.all("told", "")) > 0 {
			t.Error("the term has ended")
		}
		if s.get().Labels["touched"] != "true" {
			t.Error("the label is gone")
		}
	})
}

// TestAHolderThatWasSeenOnlyByTheLosingLeaderCounts: the other's renewal is seen only by the leader that lost its Lease to it.
func TestAHolderThatWasSeenOnlyByTheLosingLeaderCounts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	stopping, finish := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	s.candidate("a", working(func(ctx context.Context, _ *leadership.Term) error {
		<-ctx.Done()
		if once.CompareAndSwap(false, true) {
			close(stopping)
			<-finish
		}
		return nil
	}))
	s.await(soon, "start", "a", 1)
	s.edit(func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("another") })
	<-stopping
	seen := time.Now()
	if err := client.CoordinationV1().Leases(s.lease.Namespace).Delete(t.Context(), s.lease.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	close(finish)
	again := s.await(quick.LeaseDuration+soon, "start", "a", 2)
	atLeast(t, "waiting for the other", again.at.Sub(seen), quick.LeaseDuration-100*time.Millisecond)
}

func TestALeaseRenewedUnderTheSameIdentityByAnotherProcessIsLeftToIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.candidate("a")
	first := s.await(soon, "start", "a", 1)
	renew := func() {
		s.edit(func(lease *coordinationv1.Lease) {
			if holderOf(lease) != first.holder {
				t.Errorf("a has taken the Lease: %s", holderOf(lease))
			}
			lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(time.Minute)))
		})
	}
	renew()
	s.await(soon, "stop", "a", 1)
	var last time.Time
	for range 4 {
		renew()
		last = time.Now()
		eventually(t, soon, "readiness tells", func() (bool, any) {
			err := a.Check(nil)
			return err != nil && strings.Contains(err.Error(), "same identity"), err
		})
		timer := time.NewTimer(quick.LeaseDuration / 3)
		<-timer.C
	}
	again := s.await(quick.LeaseDuration+soon, "start", "a", 2)
	atLeast(t, "waiting for the other process", again.at.Sub(last), quick.LeaseDuration-100*time.Millisecond)
	if processOf(again.holder) == processOf(first.holder) {
		t.Errorf("a goes on under the identity of the other process, %s", again.holder)
	}
	if err := a.Check(nil); err != nil {
		t.Errorf("after that: %v", err)
	}
	wantIn(t, "the log", a.log.String(), "another process renews the Lease under the same identity "+first.holder)
}

func processOf(holder string) string { return holder[:strings.LastIndex(holder, "_")] }

// TestAFollowerWhoseWatchIsSilentStillTakesTheLease: the watch is established and silent.
func TestAFollowerWhoseWatchIsSilentStillTakesTheLease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.candidate("a")
	s.await(soon, "start", "a", 1)
	p := newProxy(t)
	p.set(func(r *http.Request) fault { return fault{hole: r.URL.Query().Has("watch")} })
	b := s.candidate("b", through(p.config()))
	eventually(t, soon, "b has seen the holder", func() (bool, any) {
		status := b.Statuses()[0]
		return strings.HasPrefix(status.Holder, "a_"), status
	})
	s.renewals(6)
	b.role(leadership.Follower)
	a.stop()
	s.await(quick.LeaseDuration+soon, "start", "b", 1)
}
