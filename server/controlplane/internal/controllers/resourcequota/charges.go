// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// charges records recent rises of each number, with the time at which this process observed them, and the deletions since.
type charges struct {
	now func() time.Time
	// settle is for how long it is not relied on that what was charged is stored. Admission charges before an object is converted,
	// encrypted and written.
	settle time.Duration

	mu     sync.Mutex
	quotas map[types.UID]*account
}

type account struct {
	version string
	used    corev1.ResourceList
	// writing is what the controller is about to write, which is no charge.
	writing corev1.ResourceList
	rises   map[corev1.ResourceName][]rise
	// deletions have the versions of deletions that a number does not take into account yet. counted is the version of the list that it
	// was taken from, and earlier deletions with it; empty if it was not taken from a list.
	deletions map[corev1.ResourceName][]string
	counted   map[corev1.ResourceName]string
}

type rise struct {
	amount resource.Quantity
	seen   time.Time
}

func newCharges(settle time.Duration, now func() time.Time) *charges {
	return &charges{now: now, settle: settle, quotas: map[types.UID]*account{}}
}

func (c *charges) account(quota types.UID) *account {
	if c.quotas[quota] == nil {
		c.quotas[quota] = &account{
			rises: map[corev1.ResourceName][]rise{}, deletions: map[corev1.ResourceName][]string{}, counted: map[corev1.ResourceName]string{},
		}
	}
	return c.quotas[quota]
}

// see tells whether anything was charged since the quota was seen last. All of what is used may have been charged just before it was seen for
// the first time.
func (c *charges) see(quota *corev1.ResourceQuota) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.account(quota.UID)
	if known.version != "" && !later(quota.ResourceVersion, known.version) {
		return false
	}
	charged := false
	for name, amount := range quota.Status.Used {
		more, before := amount.DeepCopy(), known.used[name]
		if written := known.writing[name]; written.Cmp(before) > 0 {
			before = written
		}
		more.Sub(before)
		if more.Sign() > 0 {
			known.rises[name] = append(known.rises[name], rise{more, c.now()})
			charged = true
		}
	}
	known.version, known.used = quota.ResourceVersion, quota.Status.Used
	return charged
}

// recent is how much of a number may not be stored yet, and how long it takes until that is less.
func (c *charges) recent(quota types.UID, name corev1.ResourceName) (resource.Quantity, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := resource.Quantity{Format: resource.DecimalSI}
	known := c.quotas[quota]
	if known == nil {
		return sum, 0
	}
	all, now := known.rises[name], c.now()
	for len(all) > 0 && now.Sub(all[0].seen) >= c.settle {
		all = all[1:]
	}
	if known.rises[name] = all; len(all) == 0 {
		return sum, 0
	}
	for _, one := range all {
		sum.Add(one.amount)
	}
	return sum, c.settle - now.Sub(all[0].seen)
}

// write notes what the controller is about to write, nil once it has been.
func (c *charges) write(quota types.UID, used corev1.ResourceList) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account(quota).writing = used
}

// deleted notes the deletion of an object that a number counts.
func (c *charges) deleted(quota types.UID, name corev1.ResourceName, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.account(quota)
	if counted := known.counted[name]; counted == "" || later(version, counted) {
		known.deletions[name] = append(known.deletions[name], version)
	}
}

// deletions is how many deletions a number does not take into account yet.
func (c *charges) deletions(quota types.UID, name corev1.ResourceName) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.account(quota).deletions[name])
}

// take notes that a number takes into account the first deletions and, if it was counted, all up to the version of the list.
func (c *charges) take(quota types.UID, name corev1.ResourceName, deletions int, counted string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.account(quota)
	left := known.deletions[name][min(deletions, len(known.deletions[name])):]
	if counted != "" {
		known.counted[name] = counted
		left = slices.DeleteFunc(slices.Clone(left), func(version string) bool { return !later(version, counted) })
	}
	known.deletions[name] = left
}

// later reports whether a version is later than another one, or cannot be compared.
func later(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err != nil || order > 0
}

func (c *charges) forget(quota types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.quotas, quota)
}
