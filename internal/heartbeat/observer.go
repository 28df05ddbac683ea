// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// Observer has the Leases of processes. A Lease is live while its renewals are observed within its duration; the times in it are not
// compared with any clock, since clocks differ. Observer is a cache.ResourceEventHandler.
type Observer struct {
	// Elapsed is the time since some moment in the past.
	Elapsed func() time.Duration
	// Duration is that of all Leases; 0 means what each Lease says.
	Duration time.Duration
	// DefaultDuration is that of Leases without a duration.
	DefaultDuration time.Duration

	mu     sync.Mutex
	leases map[string]observed
}

// observed is a Lease, and when its last renewal was observed.
type observed struct {
	lease   *coordinationv1.Lease
	renewed time.Duration
}

// Since returns an Elapsed function of a clock.
func Since(c clock.PassiveClock) func() time.Duration {
	start := c.Now()
	return func() time.Duration { return c.Since(start) }
}

// OnAdd implements cache.ResourceEventHandler. A Lease that existed before counts as live until it has not been renewed for its duration.
func (o *Observer) OnAdd(obj any, _ bool) { o.observe(obj) }

// OnUpdate implements cache.ResourceEventHandler.
func (o *Observer) OnUpdate(_, obj any) { o.observe(obj) }

// OnDelete implements cache.ResourceEventHandler.
func (o *Observer) OnDelete(obj any) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.leases, key)
}

// Replace observes all Leases that exist, and forgets the others. It reports whether a renewal was observed.
func (o *Observer) Replace(leases []coordinationv1.Lease) bool {
	keys, renewed := map[string]bool{}, false
	for i := range leases {
		keys[key(&leases[i])] = true
		renewed = o.observe(&leases[i]) || renewed
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.leases, func(key string, _ observed) bool { return !keys[key] })
	return renewed
}

func key(lease *coordinationv1.Lease) string { return lease.Namespace + "/" + lease.Name }

// observe reports whether the Lease was renewed.
func (o *Observer) observe(obj any) bool {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.leases == nil {
		o.leases = map[string]observed{}
	}
	before, known := o.leases[key(lease)]
	next := observed{lease: lease, renewed: before.renewed}
	renewed := !known || !sameRenewal(before.lease, lease)
	if renewed {
		next.renewed = o.Elapsed()
	}
	o.leases[key(lease)] = next
	return renewed
}

func sameRenewal(a, b *coordinationv1.Lease) bool {
	return a.UID == b.UID && ptr.Deref(a.Spec.HolderIdentity, "") == ptr.Deref(b.Spec.HolderIdentity, "") && a.Spec.RenewTime.Equal(b.Spec.RenewTime)
}

func (o *Observer) durationOf(lease *coordinationv1.Lease) time.Duration {
	if seconds := ptr.Deref(lease.Spec.LeaseDurationSeconds, 0); o.Duration == 0 && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	return max(o.Duration, o.DefaultDuration)
}

// Live calls yield with every live Lease. yield must not call the observer.
func (o *Observer) Live(yield func(lease *coordinationv1.Lease)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.Elapsed()
	for _, s := range o.leases {
		if now-s.renewed < o.durationOf(s.lease) {
			yield(s.lease)
		}
	}
}

// IsLive reports whether the Lease namespace/name is live.
func (o *Observer) IsLive(namespace, name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, ok := o.leases[namespace+"/"+name]
	return ok && o.Elapsed()-s.renewed < o.durationOf(s.lease)
}

// Expired returns the Leases of a namespace that have not been renewed for a number of their durations: preconditions for their deletion,
// by name.
func (o *Observer) Expired(namespace string, durations int) map[string]metav1.Preconditions {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[string]metav1.Preconditions{}
	now := o.Elapsed()
	for _, s := range o.leases {
		if s.lease.Namespace == namespace && now-s.renewed > time.Duration(durations)*o.durationOf(s.lease) {
			out[s.lease.Name] = metav1.Preconditions{UID: &s.lease.UID, ResourceVersion: &s.lease.ResourceVersion}
		}
	}
	return out
}
