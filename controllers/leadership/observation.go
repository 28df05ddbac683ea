// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/kube-annex/annex/apis/fencing"
)

// observation is the last observed state of a Lease, and the time from which a follower may take the Lease. As in client-go, the
// holder's clock does not count: a Lease has expired when no renewal was observed for its duration by the follower's own clock.
type observation struct {
	// lease is nil where there is none, or nothing is known yet.
	lease *coordinationv1.Lease
	known bool
	// freeAt is when the last renewal that was seen has expired.
	freeAt time.Duration
}

// renewalRecord identifies one renewal of one term.
type renewalRecord struct {
	holder, uid string
	transitions int32
	renewed     time.Time
}

func recordOf(lease *coordinationv1.Lease) renewalRecord {
	if lease == nil {
		return renewalRecord{}
	}
	h := renewalRecord{holder: holderOf(lease), uid: string(lease.UID), transitions: transitionsOf(lease)}
	if lease.Spec.RenewTime != nil {
		h.renewed = lease.Spec.RenewTime.UTC()
	}
	return h
}

// observe records a state of the Lease, or nil if the Lease does not exist. ended reports whether the work of a holder is known to have
// ended.
func (o *observation) observe(lease *coordinationv1.Lease, now, fallback time.Duration, ended func(holder string) bool) {
	last, next := recordOf(o.lease), recordOf(lease)
	first := !o.known
	o.lease, o.known = lease, true
	switch {
	case next.holder != "" && ended(next.holder):
		o.freeAt = now
	case next.holder != "" && (first || next != last):
		// A renewal. An edit by hand may have shortened the duration, but not what the last renewal promised; nor does a much longer
		// one count after it was corrected.
		o.freeAt = max(now+durationOf(lease, fallback), min(o.freeAt, now+fallback))
		if !first && next.holder != last.holder && next.uid == last.uid && next.transitions <= last.transitions {
			o.freeAt = max(o.freeAt, now+fallback) // every acquisition increments transitions; see below
		}
	case next.holder != "":
		// Seen before.
	case first:
		o.freeAt = now
	case released(lease, last):
		o.freeAt = now
	case next != last:
		// The Lease lost its holder, or was deleted, by someone's hand. The last holder may still be at work, and may have renewed after
		// the last renewal that was seen here, until just before this.
		o.freeAt = now + fallback
	}
}

// released reports whether the last holder recorded in the Lease that its work has ended.
func released(lease *coordinationv1.Lease, last renewalRecord) bool {
	if lease == nil {
		return false
	}
	value := lease.Annotations[fencing.ReleasedAnnotation]
	term := fencing.Current(lease) // which has no holder any more
	holder, ok := strings.CutPrefix(value, term.Value())
	if !ok || holder == "" {
		return false
	}
	sameTerm := last.uid == string(lease.UID) && last.transitions == term.Transitions
	return !sameTerm || last.holder == "" || last.holder == holder
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func transitionsOf(lease *coordinationv1.Lease) int32 {
	if lease == nil || lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return *lease.Spec.LeaseTransitions
}

func durationOf(lease *coordinationv1.Lease, fallback time.Duration) time.Duration {
	if lease.Spec.LeaseDurationSeconds == nil || *lease.Spec.LeaseDurationSeconds <= 0 {
		return fallback
	}
	return time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second
}
