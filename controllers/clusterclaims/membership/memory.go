// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

// claims are uids of claims.
type claims map[types.UID]struct{}

func (c claims) has(uid types.UID) bool {
	_, ok := c[uid]
	return ok
}

// storedClaims remembers claims that were stored at some time.
type storedClaims struct {
	mu   sync.Mutex
	uids claims
}

func (s *storedClaims) add(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uids == nil {
		s.uids = claims{}
	}
	s.uids[uid] = struct{}{}
}

// all returns the claims that are known by now.
func (s *storedClaims) all() claims {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.uids)
}

// forget drops claims that are gone and have no reservation.
func (s *storedClaims) forget(gone claims, reservations []v1alpha1.ClusterIDReservation) {
	for i := range reservations {
		delete(gone, reservations[i].HoldingClaim())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.uids, func(uid types.UID, _ struct{}) bool { return gone.has(uid) })
}

// idleReservations remembers since when reservations are as they are.
type idleReservations struct {
	seen map[types.UID]idleReservation
}

type idleReservation struct {
	version string
	since   time.Time
}

// since returns how long the reservation has been seen as it is.
func (s *idleReservations) since(r *v1alpha1.ClusterIDReservation, now time.Time) time.Duration {
	if s.seen == nil {
		s.seen = map[types.UID]idleReservation{}
	}
	last, ok := s.seen[r.UID]
	if !ok || last.version != r.ResourceVersion {
		s.seen[r.UID] = idleReservation{version: r.ResourceVersion, since: now}
		return 0
	}
	return now.Sub(last.since)
}

// keep forgets reservations that are gone.
func (s *idleReservations) keep(reservations []v1alpha1.ClusterIDReservation) {
	there := map[types.UID]bool{}
	for i := range reservations {
		there[reservations[i].UID] = true
	}
	maps.DeleteFunc(s.seen, func(uid types.UID, _ idleReservation) bool { return !there[uid] })
}
