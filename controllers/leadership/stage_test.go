// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/controllers/leadership"
)

// quick are timings with which tests need not wait long.
var quick = leadership.Timings{
	LeaseDuration: 8 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 300 * time.Millisecond,
	StopTimeout: 2 * time.Second, BalanceAfter: time.Second,
}

// soon is within what happens that has to wait for little, on a busy machine.
const soon = 30 * time.Second

// handClock stands still until a test moves it. What electors decide by time does not depend on how busy the machine is then.
type handClock struct{ elapsed atomic.Int64 }

func (c *handClock) set(elapsed time.Duration) { c.elapsed.Store(int64(elapsed)) }

// of has an elector go by the clock.
func (c *handClock) of(p *plan) {
	p.options.Clock.Elapsed = func() time.Duration { return time.Duration(c.elapsed.Load()) }
}

// stage is a Lease and those who work under it; two terms at work at a time fail the test.
type stage struct {
	t     *testing.T
	lease types.NamespacedName

	mu      sync.Mutex
	working map[string]int
	events  []event
	// ended are the electors whose process would have ended; what they do after that would not be done.
	ended map[string]bool
}

// event is one of "build", "start", "told" and "stop".
type event struct {
	at          time.Time
	what        string
	who, holder string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return &stage{t: t, lease: types.NamespacedName{Namespace: "default", Name: "t-" + rand.String(8)}, working: map[string]int{}, ended: map[string]bool{}}
}

func (s *stage) note(what, who string, term *leadership.Term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	holder := term.Fence().Holder
	if s.ended[who] {
		return
	}
	s.events = append(s.events, event{at: time.Now(), what: what, who: who, holder: holder})
	switch what {
	case "start":
		s.working[holder]++
	case "stop":
		if s.working[holder]--; s.working[holder] == 0 {
			delete(s.working, holder)
		}
	}
	if len(s.working) > 1 {
		s.t.Errorf("two terms of %s are at work: %v", s.lease, slices.Collect(maps.Keys(s.working)))
	}
}

// end forgets the work of a process that would have ended.
func (s *stage) end(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[who] = true
	for _, e := range s.events {
		if e.who == who {
			delete(s.working, e.holder)
		}
	}
}

// all returns the events of a kind, of one elector or all.
func (s *stage) all(what, who string) []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []event
	for _, e := range s.events {
		if e.what == what && (who == "" || e.who == who) {
			out = append(out, e)
		}
	}
	return out
}

// await waits until there are n events of a kind and returns the last of these.
func (s *stage) await(within time.Duration, what, who string, n int) event {
	s.t.Helper()
	var found []event
	eventually(s.t, within, fmt.Sprintf("%d %s of %q", n, what, who), func() (bool, any) {
		found = s.all(what, who)
		return len(found) >= n, found
	})
	return found[n-1]
}

func (s *stage) get() *coordinationv1.Lease {
	s.t.Helper()
	return getLease(s.t, s.lease)
}

func getLease(t *testing.T, name types.NamespacedName) *coordinationv1.Lease {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(name.Namespace).Get(t.Context(), name.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// edit changes the Lease by hand.
func (s *stage) edit(change func(lease *coordinationv1.Lease)) {
	s.t.Helper()
	eventually(s.t, soon, "the edit succeeds", func() (bool, any) {
		lease := s.get()
		change(lease)
		_, err := client.CoordinationV1().Leases(s.lease.Namespace).Update(s.t.Context(), lease, metav1.UpdateOptions{})
		return err == nil, err
	})
}

// hold has a holder that does not exist take the Lease.
func (s *stage) hold(holder string, duration time.Duration) {
	s.t.Helper()
	now := metav1.NowMicro()
	if _, err := client.CoordinationV1().Leases(s.lease.Namespace).Create(s.t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.lease.Namespace, Name: s.lease.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(duration / time.Second)), AcquireTime: &now, RenewTime: &now, LeaseTransitions: ptr.To[int32](7),
		},
	}, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// eventually polls until the condition holds; what it has last seen is printed if that is never.
func eventually(t testing.TB, within time.Duration, what string, condition func() (bool, any)) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, seen := condition()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s; last seen: %+v", within, what, seen)
		}
	}
}

// throughout polls for a time, in which the condition has to hold.
func throughout(t testing.TB, lasting time.Duration, what string, condition func() (bool, any)) {
	t.Helper()
	deadline := time.After(lasting)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, seen := condition(); !ok {
			t.Fatalf("no longer: %s; seen: %+v", what, seen)
		}
		select {
		case <-tick.C:
		case <-deadline:
			return
		}
	}
}

// atLeast has no upper bound: how much later something happens is the machine's affair.
func atLeast(t testing.TB, what string, got, low time.Duration) {
	t.Helper()
	t.Logf("%s took %s", what, got.Round(time.Millisecond))
	if got < low {
		t.Errorf("%s took %s, want at least %s", what, got.Round(time.Millisecond), low)
	}
}

func wantIn(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s does not say %q: %s", what, part, text)
		}
	}
}
