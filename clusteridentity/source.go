// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// Source knows the identity of the cluster while Run runs, and afterwards what it was then. All methods may be called at any time, by
// anyone.
type Source struct {
	current  atomic.Pointer[Identity]
	running  atomic.Bool
	troubles troubles

	mu          sync.Mutex
	subscribers map[chan Identity]struct{}
}

// New returns a source that knows nothing yet. It starts nothing.
func New() *Source { return &Source{subscribers: map[chan Identity]struct{}{}} }

// Current returns the identity as it was last read. It is quick, and never waits.
func (s *Source) Current() Identity {
	if current := s.current.Load(); current != nil {
		return *current
	}
	return Identity{}
}

// Trouble says why the claims cannot be read at the moment; nil while they can.
func (s *Source) Trouble() error { return s.troubles.first() }

// Changes returns a channel of identities: the present one as soon as it is known, and each later one. A reader that is slow misses what
// was in between, and never the last; it holds up nobody. The channel is closed when the context ends.
func (s *Source) Changes(ctx context.Context) <-chan Identity {
	changes := make(chan Identity, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if current := s.Current(); current.Known {
		changes <- current
	}
	s.subscribers[changes] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers, changes)
		close(changes)
	})
	return changes
}

// publish tells everyone, unless nothing has changed.
func (s *Source) publish(identity Identity) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if identity == s.Current() {
		return false
	}
	s.current.Store(&identity)
	for changes := range s.subscribers {
		// There is room for one. Only this function writes, so after what nobody took is gone there is room.
		select {
		case <-changes:
		default:
		}
		changes <- identity
	}
	return true
}

// WaitForID waits until the cluster has an id, in a set or not.
func (s *Source) WaitForID(ctx context.Context) (Identity, error) {
	return s.wait(ctx, func(i Identity) bool { return i.ID != "" },
		"the cluster has no id: %w; create the ClusterClaim id.k8s.io")
}

// WaitForMembership waits until the cluster is a member of a set. Watch Changes to learn when that ends.
func (s *Source) WaitForMembership(ctx context.Context) (Identity, error) {
	return s.wait(ctx, Identity.IsMember, "the cluster is in no set: %w; create the ClusterClaim clusterset.k8s.io to join one")
}

func (s *Source) wait(ctx context.Context, enough func(Identity) bool, missing string) (Identity, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	for identity := range s.Changes(waiting) {
		if enough(identity) {
			return identity, nil
		}
	}
	cause, current, trouble := context.Cause(ctx), s.Current(), s.Trouble()
	switch {
	case current.Known:
		return current, fmt.Errorf(missing, cause)
	case trouble != nil:
		return current, fmt.Errorf("the ClusterClaims could not be read: %w (%w)", cause, trouble)
	case !s.running.Load():
		return current, fmt.Errorf("the ClusterClaims were not read: %w; call Run beside it", cause)
	}
	return current, fmt.Errorf("the ClusterClaims were not read in time: %w", cause)
}
