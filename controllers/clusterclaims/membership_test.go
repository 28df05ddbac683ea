// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaims_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
	"github.com/kube-annex/annex/controllers/clusterclaims/membership"
)

// keepReservations runs the controller of a cluster that has a hub.
func keepReservations(t *testing.T, c, hubCluster *cluster, clock clock.Clock) (stop func()) {
	t.Helper()
	controller, err := membership.New(membership.Options{Host: c.config, Hub: hubClient(t, hubCluster), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return run(t, controller.Run)
}

func hubClient(t *testing.T, hubCluster *cluster) *hub.Client {
	t.Helper()
	client, err := hub.NewClient(hubCluster.config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// reserve does what the extension apiserver does before a join.
func reserve(t *testing.T, c, hubCluster *cluster, id, claim string) {
	t.Helper()
	m := hub.Membership{Set: "fleet", ID: id, Cluster: c.uid, Claim: types.UID(claim)}
	if err := hubClient(t, hubCluster).Reserve(t.Context(), m, false); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) waitReserved(t *testing.T, status metav1.ConditionStatus, reason string) *v1alpha1.ClusterClaim {
	t.Helper()
	return c.waitCondition(t, set, v1alpha1.ClaimReserved, status, reason)
}

// waitReservation waits until the hub has, or has not, the reservation of an id in the set fleet.
func (c *cluster) waitReservation(t *testing.T, id string, want bool) {
	t.Helper()
	eventually(t, func() (bool, any) {
		found := c.reservations(t)
		_, got := found["fleet/"+id]
		return got == want, found
	})
}

func TestAMemberFromBeforeGetsItsReservation(t *testing.T) {
	t.Parallel()
	hubCluster, c := startCluster(t, "hub"), startCluster(t, "u-1")
	c.create(t, id, "a")
	claim := c.create(t, set, "fleet")
	keepReservations(t, c, hubCluster, nil)
	c.waitReserved(t, metav1.ConditionTrue, "Reserved")
	r := hubCluster.reservations(t)["fleet/a"]
	if r.Spec.ClusterUID != c.uid || r.HoldingClaim() != claim.UID || r.Status.Owner == "" {
		t.Errorf("the reservation is %+v", r)
	}
	c.delete(t, set)
	hubCluster.waitReservation(t, "a", false)
}

func TestAConflictEvictsNobody(t *testing.T) {
	t.Parallel()
	hubCluster, c, other := startCluster(t, "hub"), startCluster(t, "u-1"), startCluster(t, "u-2")
	reserve(t, other, hubCluster, "a", "c-2")
	c.create(t, id, "a")
	joined := c.create(t, set, "fleet")
	clock := testingclock.NewFakeClock(time.Now())
	keepReservations(t, c, hubCluster, clock)
	claim := c.waitReserved(t, metav1.ConditionFalse, "TakenByAnother")
	message := meta.FindStatusCondition(claim.Status.Conditions, v1alpha1.ClaimReserved).Message
	if claim.UID != joined.UID || !strings.Contains(message, "u-2") || !strings.Contains(message, `"tester"`) {
		t.Errorf("the claim's uid is %s, and the condition says %q; want %s and the holder", claim.UID, message, joined.UID)
	}
	eventually(t, func() (bool, any) { return c.reasons() == "TakenByAnother", c.reasons() })
	// The other one leaves.
	r := hubCluster.reservations(t)["fleet/a"]
	if err := hubClient(t, hubCluster).Free(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	stepUntil(t, clock, 10*time.Second, func() (bool, any) {
		now := meta.FindStatusCondition(c.get(t, set).Status.Conditions, v1alpha1.ClaimReserved)
		return now.Status == metav1.ConditionTrue, now
	})
}

func TestAReservationLastsAsLongAsTheClaim(t *testing.T) {
	t.Parallel()
	hubCluster, c := startCluster(t, "hub"), startCluster(t, "u-1")
	c.create(t, id, "a")
	c.create(t, set, "fleet", "annex.test/hold")
	keepReservations(t, c, hubCluster, nil)
	c.waitReserved(t, metav1.ConditionTrue, "Reserved")
	before := hubCluster.reservations(t)["fleet/a"]
	c.delete(t, set)
	// It is a member until the last finalizer goes. The status is written for the deletion, too, so it has been looked at.
	c.waitReserved(t, metav1.ConditionTrue, "Reserved")
	if now := hubCluster.reservations(t)["fleet/a"]; now.UID != before.UID {
		t.Errorf("the reservation of a cluster that has not left is %+v", now)
	}
	c.patch(t, set, `{"metadata":{"finalizers":null}}`)
	hubCluster.waitReservation(t, "a", false)
}

func TestWhatWasNeverStoredIsFreedAfterFiveMinutes(t *testing.T) {
	t.Parallel()
	hubCluster, c := startCluster(t, "hub"), startCluster(t, "u-1")
	clock := testingclock.NewFakeClock(time.Now())
	reserve(t, c, hubCluster, "a", "never-stored")
	keepReservations(t, c, hubCluster, clock)
	eventually(t, func() (bool, any) { return clock.HasWaiters(), "the reservation has not been looked at" })
	clock.Step(4 * time.Minute)
	// Another attempt to join begins the wait anew.
	reserve(t, c, hubCluster, "a", "never-stored-either")
	version := hubCluster.reservations(t)["fleet/a"].ResourceVersion
	looked := 0
	eventually(t, func() (bool, any) {
		if clock.HasWaiters() {
			looked++
			if looked < 3 {
				clock.Step(30 * time.Second)
			}
		}
		return looked >= 3, looked
	})
	if now := hubCluster.reservations(t)["fleet/a"]; now.ResourceVersion != version {
		t.Fatalf("five minutes after the first attempt the reservation is %+v", now)
	}
	passed := stepUntil(t, clock, 30*time.Second, func() (bool, any) {
		_, there := hubCluster.reservations(t)["fleet/a"]
		return !there, "still there"
	})
	if passed < 3*time.Minute {
		t.Errorf("it was freed %s later", passed)
	}
}

func TestLeavingWhileTheHubIsAway(t *testing.T) {
	t.Parallel()
	hubCluster, c := startCluster(t, "hub"), startCluster(t, "u-1")
	c.create(t, id, "a")
	c.create(t, set, "fleet")
	keepReservations(t, c, hubCluster, nil)
	c.waitReserved(t, metav1.ConditionTrue, "Reserved")
	hubCluster.set(func() { hubCluster.away = true })
	c.patch(t, set, `{"metadata":{"labels":{"a":"b"}}}`)
	c.delete(t, set)
	c.patch(t, id, `{"spec":{"value":"b"}}`) // at once
	if _, there := hubCluster.reservations(t)["fleet/a"]; !there {
		t.Error("the reservation went while the hub was away")
	}
	hubCluster.set(func() { hubCluster.away = false })
	hubCluster.waitReservation(t, "a", false)
}

func TestAMemberIsUntouchedWhileTheHubIsAway(t *testing.T) {
	t.Parallel()
	hubCluster, c := startCluster(t, "hub"), startCluster(t, "u-1")
	c.create(t, id, "a")
	c.create(t, set, "fleet")
	hubCluster.set(func() { hubCluster.away = true })
	stop := keepReservations(t, c, hubCluster, nil)
	c.waitReserved(t, metav1.ConditionUnknown, "HubUnreachable")
	hubCluster.set(func() { hubCluster.away = false })
	reserved := c.waitReserved(t, metav1.ConditionTrue, "Reserved")
	stop()
	hubCluster.set(func() { hubCluster.away = true })
	clock := testingclock.NewFakeClock(time.Now())
	keepReservations(t, c, hubCluster, clock)
	eventually(t, func() (bool, any) { return clock.HasWaiters(), "nothing was done" })
	if now := c.get(t, set); now.ResourceVersion != reserved.ResourceVersion {
		t.Errorf("a member whose hub is away says %+v", now.Status)
	}
}

// TestALeaveThatNobodySaw has the controllers be down while the cluster leaves: nothing tells the reservation from one that is being made.
func TestALeaveThatNobodySaw(t *testing.T) {
	t.Parallel()
	hubCluster, c := startCluster(t, "hub"), startCluster(t, "u-1")
	c.create(t, id, "a")
	c.create(t, set, "fleet")
	stop := keepReservations(t, c, hubCluster, nil)
	c.waitReserved(t, metav1.ConditionTrue, "Reserved")
	stop()
	c.delete(t, set)
	clock := testingclock.NewFakeClock(time.Now())
	keepReservations(t, c, hubCluster, clock)
	passed := stepUntil(t, clock, time.Minute, func() (bool, any) {
		_, there := hubCluster.reservations(t)["fleet/a"]
		return !there, "still there"
	})
	if passed < 4*time.Minute {
		t.Errorf("it was freed after %s", passed)
	}
}

func TestRejoiningUnderAnotherIDFreesTheFormer(t *testing.T) {
	t.Parallel()
	hubCluster, c := startCluster(t, "hub"), startCluster(t, "u-1")
	c.create(t, id, "a")
	c.create(t, set, "fleet")
	keepReservations(t, c, hubCluster, nil)
	c.waitReserved(t, metav1.ConditionTrue, "Reserved")
	c.delete(t, set)
	c.patch(t, id, `{"spec":{"value":"b"}}`)
	c.create(t, set, "fleet")
	hubCluster.waitReservation(t, "a", false)
	hubCluster.waitReservation(t, "b", true)
	c.waitReserved(t, metav1.ConditionTrue, "Reserved")
}
