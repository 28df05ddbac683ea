// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/controllers/leadership"
)

// quick are the timings of electors in bubbles.
var quick = leadership.Timings{
	LeaseDuration: 9 * time.Second, RenewDeadline: 6 * time.Second, RetryPeriod: 300 * time.Millisecond,
	StopTimeout: 2 * time.Second, BalanceAfter: time.Second,
}

// unhurried are the timings of electors outside bubbles: no Lease expires, and nothing is polled, while a test runs.
var unhurried = leadership.Timings{
	LeaseDuration: time.Hour, RenewDeadline: 40 * time.Minute, RetryPeriod: 30 * time.Minute, StopTimeout: 20 * time.Minute,
}

// soon is when a test gives up to wait for what needs no time of the Lease.
const soon = 2 * time.Minute

// stage is a Lease and those who work under it; two terms at work at a time fail the test.
type stage struct {
	t     *testing.T
	lease types.NamespacedName
	// config and client reach the server that has the Lease. clock and timings are those of the electors.
	config  *rest.Config
	client  kubernetes.Interface
	clock   leadership.Clock
	timings leadership.Timings

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

// newStage is on the control plane that all tests share. Nothing on it may depend on the time, which a busy machine takes from a test.
func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageOn(t, admin, leadership.Clock{}, unhurried)
}

// inBubble calls f with a stage in a bubble of synctest: time passes there only while everything waits, so that a test sees exactly when
// something happens. No request leaves it.
func inBubble(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		began := time.Now()
		clock := leadership.Clock{Now: time.Now, Elapsed: func() time.Duration { return time.Since(began) }}
		f(t, newStageOn(t, newFakeAPI().config(), clock, quick))
	})
}

func newStageOn(t *testing.T, config *rest.Config, clock leadership.Clock, timings leadership.Timings) *stage {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &stage{
		t: t, lease: types.NamespacedName{Namespace: "default", Name: "t-" + rand.String(8)}, config: config, client: client, clock: clock, timings: timings,
		working: map[string]int{}, ended: map[string]bool{},
	}
}

// another is a stage with another Lease on the same server.
func (s *stage) another() *stage { return newStageOn(s.t, s.config, s.clock, s.timings) }

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
	lease, err := s.client.CoordinationV1().Leases(s.lease.Namespace).Get(s.t.Context(), s.lease.Name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return lease
}

func (s *stage) remove() {
	s.t.Helper()
	if err := s.client.CoordinationV1().Leases(s.lease.Namespace).Delete(s.t.Context(), s.lease.Name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// edit changes the Lease by hand.
func (s *stage) edit(change func(lease *coordinationv1.Lease)) {
	s.t.Helper()
	eventually(s.t, soon, "the edit succeeds", func() (bool, any) {
		lease := s.get()
		change(lease)
		_, err := s.client.CoordinationV1().Leases(s.lease.Namespace).Update(s.t.Context(), lease, metav1.UpdateOptions{})
		return err == nil, err
	})
}

// hold has a holder that does not exist take the Lease.
func (s *stage) hold(holder string, duration time.Duration) {
	s.t.Helper()
	now := metav1.NowMicro()
	if _, err := s.client.CoordinationV1().Leases(s.lease.Namespace).Create(s.t.Context(), &coordinationv1.Lease{
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

// wantTook is for bubbles, where times are exact.
func wantTook(t testing.TB, what string, got, want time.Duration) {
	t.Helper()
	if got != want {
		t.Errorf("%s took %s, want %s", what, got, want)
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
