// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func TestRendezvous(t *testing.T) {
	t.Parallel()
	var replicas []replica
	for i := range 4 {
		replicas = append(replicas, says(fmt.Sprint("replica-", i), on, byFlag))
	}
	before := map[string]string{}
	load := map[string]int{}
	for i := range 400 {
		name := fmt.Sprint("Feature", i)
		for _, r := range replicas {
			r.features[name] = announcement{}
		}
		leader, ok := leads(replicas, "ns", name)
		if !ok {
			t.Fatal("nobody leads")
		}
		before[name] = leader.name
		load[leader.name]++
	}
	for _, r := range replicas {
		if load[r.name] < 50 {
			t.Errorf("%s leads %d of 400, want about 100", r.name, load[r.name])
		}
	}
	gone := replicas[2].name
	for name, was := range before {
		now, _ := leads(append(replicas[:2:2], replicas[3]), "ns", name)
		if was != gone && now.name != was {
			t.Fatalf("%s moved from %s to %s when %s went", name, was, now.name, gone)
		}
	}
	delete(replicas[0].features, "Feature1")
	delete(replicas[1].features, "Feature1")
	delete(replicas[2].features, "Feature1")
	if leader, _ := leads(replicas, "ns", "Feature1"); leader.name != replicas[3].name {
		t.Errorf("%s leads a feature that only %s knows", leader.name, replicas[3].name)
	}
	if _, ok := leads(nil, "ns", "Feature1"); ok {
		t.Error("nobody is there, and leads")
	}
}

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
	l := newLivenesses(clock, 0)
	past, future := now.AddDate(-3, 0, 0), now.AddDate(3, 0, 0)
	at := func(after time.Duration, want ...string) {
		t.Helper()
		clock.SetTime(now.Add(after))
		for _, name := range []string{"past", "future"} {
			wanted := false
			for _, w := range want {
				wanted = wanted || w == name
			}
			if got := l.isLive(name); got != wanted {
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

	if dead := l.longDead(); len(dead) != 0 {
		t.Errorf("long dead after a minute: %v", dead)
	}
	clock.SetTime(now.Add(10 * time.Minute))
	if dead := l.longDead(); len(dead) != 1 {
		t.Errorf("long dead after ten minutes: %v, want the one that expired", dead)
	}
}
