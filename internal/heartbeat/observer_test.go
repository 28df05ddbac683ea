// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func lease(name, holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: ptr.To(metav1.NewMicroTime(renewed)), LeaseDurationSeconds: ptr.To[int32](30)},
	}
}

// TestLeasesLiveWhileTheyChange has Leases whose times are years apart from the local clock.
func TestLeasesLiveWhileTheyChange(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(now)
	l := &Observer{Elapsed: Since(clock)}
	past, future := now.AddDate(-3, 0, 0), now.AddDate(3, 0, 0)
	at := func(after time.Duration, want ...string) {
		t.Helper()
		clock.SetTime(now.Add(after))
		for _, name := range []string{"past", "future"} {
			wanted := false
			for _, w := range want {
				wanted = wanted || w == name
			}
			if got := l.IsLive("ns", name); got != wanted {
				t.Errorf("after %s: %s live is %v, want %v", after, name, got, wanted)
			}
		}
	}
	l.OnAdd(lease("past", "a", past), true)
	l.OnAdd(lease("future", "a", future), true)
	at(29*time.Second, "past", "future")
	l.OnUpdate(nil, lease("past", "a", past.Add(time.Second)))
	changedOtherwise := lease("future", "a", future)
	changedOtherwise.Annotations = map[string]string{"by": "somebody"}
	l.OnUpdate(nil, changedOtherwise)
	at(31*time.Second, "past")
	at(60 * time.Second)
	l.OnUpdate(nil, lease("future", "b", future))
	at(89*time.Second, "future")
	l.OnDelete(lease("future", "b", future))
	at(89 * time.Second)

	if dead := l.Expired("ns", 4); len(dead) != 0 {
		t.Errorf("long dead after a minute: %v", dead)
	}
	clock.SetTime(now.Add(149 * time.Second)) // four durations after the last change
	if dead := l.Expired("ns", 4); len(dead) != 0 {
		t.Errorf("long dead after four durations: %v", dead)
	}
	clock.SetTime(now.Add(149*time.Second + 1))
	if dead := l.Expired("other", 4); len(dead) != 0 {
		t.Errorf("long dead in another namespace: %v", dead)
	}
	clock.SetTime(now.Add(10 * time.Minute))
	if dead := l.Expired("ns", 4); len(dead) != 1 {
		t.Errorf("long dead after ten minutes: %v, want the one that expired", dead)
	}
}

// TestReplaceForgetsMissingLeases and reports renewals, but not the end of a Lease or a change of its metadata.
func TestReplaceForgetsMissingLeases(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(now)
	o := &Observer{Elapsed: Since(clock), DefaultDuration: time.Minute}
	a, b := lease("a", "a", now), lease("b", "b", now)
	b.Spec.LeaseDurationSeconds = nil
	relabelled := lease("a", "a", now)
	relabelled.Labels = map[string]string{"x": "y"}
	for i, tc := range []struct {
		leases []coordinationv1.Lease
		want   bool
		live   int
	}{
		{leases: []coordinationv1.Lease{*a, *b}, want: true, live: 2},
		{leases: []coordinationv1.Lease{*relabelled, *b}, live: 2},
		{leases: []coordinationv1.Lease{*b}, live: 1},
		{leases: []coordinationv1.Lease{*a, *b}, want: true, live: 2},
		{leases: nil},
	} {
		if got := o.Replace(tc.leases); got != tc.want {
			t.Errorf("list %d: a renewal was observed: %t, want %t", i, got, tc.want)
		}
		live := 0
		o.Live(func(*coordinationv1.Lease) { live++ })
		if live != tc.live {
			t.Errorf("list %d: %d live Leases, want %d", i, live, tc.live)
		}
	}
	o.Replace([]coordinationv1.Lease{*a, *b})
	clock.SetTime(now.Add(59 * time.Second))
	if o.IsLive("ns", "a") || !o.IsLive("ns", "b") {
		t.Error("want a to expire after its 30 s, and b to live for the default of a minute")
	}
}
