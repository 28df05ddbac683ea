// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// at is a quota in a version, by how many secrets are used.
func at(version int, used int64) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{UID: "quota", ResourceVersion: strconv.Itoa(version)},
		Status:     corev1.ResourceQuotaStatus{Used: corev1.ResourceList{corev1.ResourceSecrets: *resource.NewQuantity(used, resource.DecimalSI)}},
	}
}

func TestWhatWasChargedOfLate(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	const settle = time.Minute
	c := newCharges(settle, func() time.Time { return now })
	for i, step := range []struct {
		after   time.Duration
		version int
		used    int64
		charged bool
		recent  int64
		wait    time.Duration
	}{
		{version: 10, used: 5, charged: true, recent: 5, wait: settle}, // nobody knows since when
		{after: settle / 4, version: 11, used: 7, charged: true, recent: 7, wait: settle * 3 / 4},
		{after: settle / 4, version: 11, used: 7, recent: 7, wait: settle / 2}, // repeated
		{version: 10, used: 5, recent: 7, wait: settle / 2},                    // late
		{version: 11, used: 7, recent: 7, wait: settle / 2},                    // repeated after that
		{version: 12, used: 3, recent: 7, wait: settle / 2},                    // lowered, which is no charge
		{version: 13, used: 4, charged: true, recent: 8, wait: settle / 2},     // and charged again
		{after: settle / 2, version: 13, used: 4, recent: 3, wait: settle / 4}, // the first charge is settled
		{after: settle / 4, version: 13, used: 4, recent: 1, wait: settle / 4}, // the second, too
		{after: settle / 4, version: 13, used: 4},
		{version: 14, used: 4}, // written, and the number is the same
	} {
		now = now.Add(step.after)
		if got := c.see(at(step.version, step.used)); got != step.charged {
			t.Errorf("step %d: charged: %t, want %t", i, got, step.charged)
		}
		recent, wait := c.recent("quota", corev1.ResourceSecrets)
		if recent.Value() != step.recent || wait != step.wait {
			t.Errorf("step %d: %d were charged of late, for %s; want %d, %s", i, recent.Value(), wait, step.recent, step.wait)
		}
	}
	c.forget("quota")
	if recent, wait := c.recent("quota", corev1.ResourceSecrets); !recent.IsZero() || wait != 0 {
		t.Errorf("of a quota that is gone, %s were charged", recent.String())
	}
}

func TestWhatTheControllerWritesIsNoCharge(t *testing.T) {
	t.Parallel()
	c := newCharges(time.Minute, time.Now)
	c.see(at(1, 0))
	c.write("quota", at(2, 3).Status.Used)
	if c.see(at(2, 3)) { // by the informer, before the write returns
		t.Error("what the controller wrote was taken for a charge")
	}
	c.write("quota", nil)
	if !c.see(at(3, 4)) {
		t.Error("a charge after that was not noticed")
	}
	if recent, _ := c.recent("quota", corev1.ResourceSecrets); recent.Value() != 1 {
		t.Errorf("%d were charged recently, want 1", recent.Value())
	}
}

func TestDeletionsAreTakenIntoAccountOnce(t *testing.T) {
	t.Parallel()
	c := newCharges(time.Minute, time.Now)
	want := func(when string, number int) {
		t.Helper()
		if got := c.deletions("quota", corev1.ResourceSecrets); got != number {
			t.Errorf("%s: %d deletions are not taken into account, want %d", when, got, number)
		}
	}
	want("at first", 0)
	for _, version := range []string{"5", "6", "8"} {
		c.deleted("quota", corev1.ResourceSecrets, version)
	}
	want("deleted", 3)
	c.take("quota", corev1.ResourceSecrets, 1, "")
	want("one was", 2)
	c.take("quota", corev1.ResourceSecrets, 0, "7")
	want("counted at 7", 1)
	c.deleted("quota", corev1.ResourceSecrets, "7")
	want("an earlier one arrives late", 1)
	c.deleted("quota", corev1.ResourceSecrets, "9")
	want("a later one", 2)
	c.take("quota", corev1.ResourceSecrets, 5, "10")
	want("counted at 10", 0)
	c.forget("quota")
	c.deleted("quota", corev1.ResourceSecrets, "4")
	want("another quota", 1)
}
