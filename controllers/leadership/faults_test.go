// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/test/framework/poll"
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
	inBubble(t, func(t *testing.T, s *stage) {
		leases := func(f fault) func(*http.Request) fault { return of("PUT POST", "/leases", f) }
		rules := map[string]func(*http.Request) fault{
			"away": always(fault{cut: true}), "black hole": always(fault{hole: true}),
			"slow": always(fault{delay: quick.RenewDeadline / 4}), "too slow": always(fault{delay: quick.RenewDeadline}),
			"403": leases(fault{status: 403}), "409": leases(fault{status: 409}), "429": leases(fault{status: 429}), "500": leases(fault{status: 500}),
			"answers lost": leases(fault{lose: true}), "reads fail": of("GET", "/leases", fault{status: 500}), "well": nil,
		}
		names := slices.Sorted(maps.Keys(rules))
		ways := []*faults{newFaults(), newFaults(), newFaults()}
		for i, way := range ways {
			s.candidate(fmt.Sprint("candidate", i), through(way))
		}
		s.await(soon, "start", "", 1)
		for range 300 {
			ways[random.IntN(len(ways))].set(rules[names[random.IntN(len(names))]])
			poll.Pause(t.Context(), time.Duration(random.Int64N(int64(quick.LeaseDuration/2))))
		}
		for _, way := range ways {
			way.set(nil)
		}
		eventually(t, 4*quick.LeaseDuration, "somebody leads", func() (bool, any) {
			terms := s.all("start", "")
			return len(terms) > len(s.all("stop", "")), terms
		})
		if terms := len(s.all("start", "")); terms < 10 {
			t.Errorf("there were %d terms only", terms)
		}
	})
}

// TestEveryFaultIsOvercomeUnaided has the only elector lose its Lease to each fault, or keep it.
func TestEveryFaultIsOvercomeUnaided(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{
		"403": {status: 403}, "409": {status: 409}, "429": {status: 429}, "500": {status: 500}, "cut": {cut: true}, "lost answers": {lose: true}, "black hole": {hole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *stage) {
				p := newFaults()
				a := s.candidate("a", through(p))
				s.await(soon, "start", "a", 1)
				p.set(of("PUT", "/leases", f))
				if !f.lose { // what was written without an answer is known by its time
					s.await(quick.LeaseDuration, "stop", "a", 1)
				} else {
					s.renewals(3)
				}
				p.set(nil)
				eventually(t, quick.LeaseDuration, "a leads", func() (bool, any) {
					status := a.Statuses()[0]
					return status.Role == leadership.Leading && status.Err == nil, status
				})
			})
		})
	}
}

// TestFailuresAreNotAnsweredWithAStorm has every write refused, in a way after which another try may be made at once.
func TestFailuresAreNotAnsweredWithAStorm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leads bool
		reads fault
	}{
		"of a leader":                  {leads: true},
		"of a leader that cannot read": {leads: true, reads: fault{status: 403}},
		"of a follower":                {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *stage) {
				f := newFaults()
				if !tc.leads {
					s.hold("gone", time.Second)
				}
				a := s.candidate("a", through(f))
				if tc.leads {
					s.await(soon, "start", "a", 1)
				} else {
					a.role(leadership.Follower)
				}
				before := f.requests.Load()
				f.set(func(r *http.Request) fault {
					if r.Method == http.MethodPut {
						return fault{status: 409, delay: time.Millisecond}
					}
					return tc.reads
				})
				poll.Pause(t.Context(), 20*quick.RetryPeriod)
				if n := f.requests.Load() - before; n == 0 || n > 70 {
					t.Errorf("%d requests were made", n)
				}
			})
		})
	}
}

func TestAnAmbiguousAcquireIsSettled(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		p := newFaults()
		p.set(of("POST PUT", "/leases", fault{lose: true}))
		s.candidate("a", through(p))
		eventually(t, soon, "the Lease is held without a's knowledge", func() (bool, any) {
			list, err := s.client.CoordinationV1().Leases(s.lease.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + s.lease.Name})
			return err == nil && len(list.Items) == 1 && holderOf(&list.Items[0]) != "", err
		})
		if built := s.all("build", ""); len(built) > 0 {
			t.Error("a term began although it is not known to be held")
		}
		p.set(nil)
		s.await(soon, "start", "a", 1)
	})
}

func TestTheTimeOfDayDoesNotMatter(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"forward": time.Hour, "backward": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *stage) {
				var offsets [2]atomic.Int64
				for i, who := range []string{"a", "b"} {
					s.candidate(who, func(p *plan) {
						p.options.Clock.Now = func() time.Time { return time.Now().Add(time.Duration(offsets[i].Load())) }
					})
					s.await(soon, "start", "a", 1)
				}
				for i := range offsets {
					offsets[i].Store(int64(jump))
					throughout(t, 2*quick.LeaseDuration, "a leads", func() (bool, any) {
						return len(s.all("start", "")) == 1 && len(s.all("told", "")) == 0, s.all("start", "")
					})
				}
			})
		})
	}
}

func TestASuspendedMachineComesBackAsAFollower(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		p := newFaults()
		var slept atomic.Int64
		a := s.candidate("a", through(p), func(p *plan) {
			p.options.Timings = unhurried
			p.options.Clock.Elapsed = func() time.Duration { return s.clock.Elapsed() + time.Duration(slept.Load()) }
		})
		first := s.await(soon, "start", "a", 1)
		p.set(of("PUT", "/leases", fault{hole: true})) // it would be the leader still if it could renew, and nobody has taken the Lease
		slept.Store(int64(2 * time.Hour))
		s.await(2*time.Second, "stop", "a", 1) // timers, which stood still, would run for another 40 minutes
		p.set(nil)
		if second := s.await(soon, "start", "a", 2); first.holder == second.holder {
			t.Error("the term goes on")
		}
		wantIn(t, "the log", a.log.String(), "the last renewal was 2h0m")
	})
}

// TestALeaseEditedByHandIsTakenOnlyWhenTheLastRenewalHasExpired has a holder that only renews, and somebody who meddles.
func TestALeaseEditedByHandIsTakenOnlyWhenTheLastRenewalHasExpired(t *testing.T) {
	t.Parallel()
	// The Lease is edited one second after it was renewed.
	const duration, later = 3 * time.Second, time.Second
	for name, tc := range map[string]struct {
		edit func(lease *coordinationv1.Lease)
		want time.Duration
	}{
		"nothing":            {func(*coordinationv1.Lease) {}, duration - later},
		"deleted":            {nil, quick.LeaseDuration},
		"the holder cleared": {func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") }, quick.LeaseDuration},
		"released by hand, in another term's name": {func(lease *coordinationv1.Lease) {
			lease.Spec.HolderIdentity = nil
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, fencing.ReleasedAnnotation, string(lease.UID)+";6;other")
		}, quick.LeaseDuration},
		"the duration shortened":           {func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = ptr.To[int32](1) }, duration - later},
		"the duration very much prolonged": {func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = ptr.To[int32](100000) }, duration - later},
		// These edits count as renewals.
		"the times cleared": {func(lease *coordinationv1.Lease) { lease.Spec.RenewTime, lease.Spec.AcquireTime = nil, nil }, duration},
		"given to another, for a second": {func(lease *coordinationv1.Lease) {
			lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("another"), ptr.To[int32](1)
		}, quick.LeaseDuration},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *stage) {
				s.hold("other", duration)
				a := s.candidate("a")
				eventually(t, soon, "a has seen the holder", func() (bool, any) {
					status := a.Statuses()[0]
					return status.Holder == "other", status
				})
				s.edit(func(lease *coordinationv1.Lease) { lease.Spec.RenewTime = ptr.To(metav1.NowMicro()) })
				poll.Pause(t.Context(), later)
				edited := time.Now()
				if tc.edit == nil {
					s.remove()
				} else {
					s.edit(tc.edit)
				}
				wantTook(t, "waiting", s.await(soon, "start", "a", 1).at.Sub(edited), tc.want)
			})
		})
	}
}

// TestALeaderWhoseLeaseIsMeddledWithStops: whoever the Lease names now, it is not this term.
func TestALeaderWhoseLeaseIsMeddledWithStops(t *testing.T) {
	t.Parallel()
	const noticed = 3 * time.Second // with the next renewal
	for name, tc := range map[string]struct {
		edit func(lease *coordinationv1.Lease)
		want time.Duration
	}{
		"the holder cleared":      {func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") }, noticed + quick.LeaseDuration},
		"given to another":        {func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("another") }, noticed + quick.LeaseDuration},
		"the transitions changed": {func(lease *coordinationv1.Lease) { lease.Spec.LeaseTransitions = ptr.To[int32](70) }, noticed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *stage) {
				s.candidate("a")
				began := s.await(soon, "start", "a", 1).at
				s.edit(tc.edit)
				wantTook(t, "stopping", s.await(soon, "stop", "a", 1).at.Sub(began), noticed)
				wantTook(t, "the next term", s.await(soon, "start", "a", 2).at.Sub(began), tc.want)
			})
		})
	}
	t.Run("a label added", func(t *testing.T) {
		t.Parallel()
		inBubble(t, func(t *testing.T, s *stage) {
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
	})
}

// TestAHolderThatWasSeenOnlyByTheLosingLeaderCounts: the other's renewal is seen only by the leader that lost its Lease to it.
func TestAHolderThatWasSeenOnlyByTheLosingLeaderCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
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
		s.remove()
		close(finish)
		wantTook(t, "waiting for the other", s.await(soon, "start", "a", 2).at.Sub(seen), quick.LeaseDuration)
	})
}

func TestALeaseRenewedUnderTheSameIdentityByAnotherProcessIsLeftToIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
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
			poll.Pause(t.Context(), quick.LeaseDuration/3)
		}
		again := s.await(soon, "start", "a", 2)
		wantTook(t, "waiting for the other process", again.at.Sub(last), quick.LeaseDuration)
		if processOf(again.holder) == processOf(first.holder) {
			t.Errorf("a goes on under the identity of the other process, %s", again.holder)
		}
		if err := a.Check(nil); err != nil {
			t.Errorf("after that: %v", err)
		}
		wantIn(t, "the log", a.log.String(), "another process renews the Lease under the same identity "+first.holder)
	})
}

func processOf(holder string) string { return holder[:strings.LastIndex(holder, "_")] }

// TestAFollowerWhoseWatchIsSilentStillTakesTheLease: the watch is established and silent.
func TestAFollowerWhoseWatchIsSilentStillTakesTheLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		a := s.candidate("a")
		s.await(soon, "start", "a", 1)
		p := newFaults()
		p.set(func(r *http.Request) fault { return fault{hole: r.URL.Query().Has("watch")} })
		b := s.candidate("b", through(p))
		eventually(t, soon, "b has seen the holder", func() (bool, any) {
			status := b.Statuses()[0]
			return strings.HasPrefix(status.Holder, "a_"), status
		})
		s.renewals(6)
		b.role(leadership.Follower)
		a.stop()
		s.await(quick.LeaseDuration+time.Second, "start", "b", 1)
	})
}
