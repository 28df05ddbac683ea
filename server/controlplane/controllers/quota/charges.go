// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// settle is for how long it is not relied on that what was charged is stored. Admission charges just before an object is written.
const settle = time.Second

// charges remember by how much numbers rose of late, and when that was seen, by the clock of this process.
type charges struct {
	now func() time.Time

	mu     sync.Mutex
	quotas map[types.UID]*account
}

type account struct {
	version string
	used    corev1.ResourceList
	rises   map[corev1.ResourceName][]rise
}

type rise struct {
	amount resource.Quantity
	seen   time.Time
}

func newCharges(now func() time.Time) *charges {
	return &charges{now: now, quotas: map[types.UID]*account{}}
}

// see tells whether anything was charged since the quota was seen last. All of what is used may have been charged just before it was seen for
// the first time.
func (c *charges) see(quota *corev1.ResourceQuota) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.quotas[quota.UID]
	if known == nil {
		known = &account{rises: map[corev1.ResourceName][]rise{}}
		c.quotas[quota.UID] = known
	} else if order, err := resourceversion.CompareResourceVersion(quota.ResourceVersion, known.version); err == nil && order <= 0 {
		return false
	}
	charged := false
	for name, amount := range quota.Status.Used {
		more := amount.DeepCopy()
		more.Sub(known.used[name])
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
	for len(all) > 0 && now.Sub(all[0].seen) >= settle {
		all = all[1:]
	}
	if known.rises[name] = all; len(all) == 0 {
		return sum, 0
	}
	for _, one := range all {
		sum.Add(one.amount)
	}
	return sum, settle - now.Sub(all[0].seen)
}

func (c *charges) forget(quota types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.quotas, quota)
}
