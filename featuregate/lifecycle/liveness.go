// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// livenesses knows which Leases are live: those that have been seen to change within their duration. Reading the times in them
// instead would need clocks that agree.
type livenesses struct {
	clock clock.PassiveClock
	// duration is that of all Leases; 0 means what each says.
	duration time.Duration

	mu   sync.Mutex
	seen map[string]*sighting
}

// defaultSeconds is the duration of a Lease that says nothing of it.
const defaultSeconds = 15 * 60

// sighting is a Lease that exists, and when it was seen to change.
type sighting struct {
	lease   *coordinationv1.Lease
	changed time.Time
}

func newLivenesses(c clock.PassiveClock, duration time.Duration) *livenesses {
	return &livenesses{clock: c, duration: duration, seen: map[string]*sighting{}}
}

// OnAdd implements cache.ResourceEventHandler. A Lease that was there before counts as live until it has been silent for its duration.
func (l *livenesses) OnAdd(obj any, _ bool) { l.see(obj) }

// OnUpdate implements cache.ResourceEventHandler.
func (l *livenesses) OnUpdate(_, obj any) { l.see(obj) }

// OnDelete implements cache.ResourceEventHandler.
func (l *livenesses) OnDelete(obj any) {
	key, err := deletedName(obj)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.seen, key)
}

func (l *livenesses) see(obj any) {
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.seen[lease.Name]
	if before != nil && sameTerm(before.lease, lease) {
		before.lease = lease
		return
	}
	l.seen[lease.Name] = &sighting{lease: lease, changed: l.clock.Now()}
}

func sameTerm(a, b *coordinationv1.Lease) bool {
	return a.UID == b.UID && ptr.Deref(a.Spec.HolderIdentity, "") == ptr.Deref(b.Spec.HolderIdentity, "") &&
		ptr.Equal(microTime(a.Spec.RenewTime), microTime(b.Spec.RenewTime))
}

func microTime(t *metav1.MicroTime) *int64 {
	if t == nil {
		return nil
	}
	return ptr.To(t.UnixMicro())
}

func (l *livenesses) expiry(s *sighting) time.Time {
	d := l.duration
	if d == 0 {
		d = time.Duration(ptr.Deref(s.lease.Spec.LeaseDurationSeconds, defaultSeconds)) * time.Second
	}
	return s.changed.Add(d)
}

// live calls a function with every live Lease, and when it will have expired unless it changes.
func (l *livenesses) live(yield func(lease *coordinationv1.Lease, expires time.Time)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	for _, s := range l.seen {
		if expires := l.expiry(s); now.Before(expires) {
			yield(s.lease, expires)
		}
	}
}

// longDead returns the Leases that expired long ago, for their removal.
func (l *livenesses) longDead() map[string]metav1.Preconditions {
	const durations = 4
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]metav1.Preconditions{}
	now := l.clock.Now()
	for name, s := range l.seen {
		if span := l.expiry(s).Sub(s.changed); now.Sub(s.changed) > durations*span {
			out[name] = metav1.Preconditions{UID: ptr.To[types.UID](s.lease.UID), ResourceVersion: ptr.To(s.lease.ResourceVersion)}
		}
	}
	return out
}

// isLive tells whether a Lease is live.
func (l *livenesses) isLive(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.seen[name]
	return s != nil && l.clock.Now().Before(l.expiry(s))
}
