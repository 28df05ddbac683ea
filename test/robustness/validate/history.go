// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validate finds violations of invariants in histories.
//
// A History follows what etcd commits, and collects violations with the revisions at which they happened. A Record is what clients and
// watchers saw; its Violations are:
//
//   - An object is not linearizable, by porcupine: a quorum read or a list does not show the last write, an acknowledged write is
//     lost. Requests without an answer may have been done or not, at any later time.
//   - Resource versions go back: what is written or listed after a write was acknowledged has a lower one, whatever the object.
//   - A resource version is more than one change of one object, caches included.
//   - Watch events come in another order, with gaps or duplicates; or a watcher has other objects in the end than a list.
//
// Each checker is shown to find what it looks for, with forged histories here and with a server that lies in package traffic.
package validate

import (
	"context"
	"fmt"
	"slices"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Step checks the events of one revision. It is called with the lock of the history.
type Step func(revision int64, events []*clientv3.Event) error

// History is how far etcd was followed and what was violated. Checkers embed it; its lock guards their state as well.
type History struct {
	sync.Mutex
	revision   int64
	arrived    chan struct{}
	violations []string
	violated   chan struct{}
}

// NewHistory returns a history that begins after a revision.
func NewHistory(revision int64) *History {
	return &History{revision: revision, arrived: make(chan struct{}), violated: make(chan struct{})}
}

// Follow hands each revision that etcd commits to step, until the context ends. Members of etcd may be away in between.
func (h *History) Follow(ctx context.Context, client *clientv3.Client, step Step) error {
	for ctx.Err() == nil {
		if err := h.watch(ctx, client, step); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (h *History) watch(ctx context.Context, client *clientv3.Client, step Step) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := h.Revision() + 1
	for response := range client.Watch(clientv3.WithRequireLeader(ctx), "/", clientv3.WithPrefix(), clientv3.WithRev(next)) {
		if response.CompactRevision > 0 {
			return fmt.Errorf("revision %d was compacted before it was seen", next)
		}
		if response.Err() != nil {
			return nil //nolint:nilerr // the next watch continues from the last revision
		}
		if err := h.Play(response.Events, step); err != nil {
			return err
		}
	}
	return nil
}

// Play hands events to step, revision by revision. They are of whole revisions: etcd does not spread one over two responses.
func (h *History) Play(events []*clientv3.Event, step Step) error {
	h.Lock()
	defer h.Unlock()
	for len(events) > 0 {
		h.revision = events[0].Kv.ModRevision
		n := slices.IndexFunc(events, func(e *clientv3.Event) bool { return e.Kv.ModRevision != h.revision })
		if n < 0 {
			n = len(events)
		}
		if err := step(h.revision, events[:n]); err != nil {
			return fmt.Errorf("revision %d: %w", h.revision, err)
		}
		events = events[n:]
	}
	close(h.arrived)
	h.arrived = make(chan struct{})
	return nil
}

// Revision returns the last revision that was checked.
func (h *History) Revision() int64 {
	h.Lock()
	defer h.Unlock()
	return h.revision
}

// WaitFor waits until a revision was checked.
func (h *History) WaitFor(ctx context.Context, revision int64) error {
	for {
		h.Lock()
		reached, arrived := h.revision, h.arrived
		h.Unlock()
		if reached >= revision {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return fmt.Errorf("etcd's history was checked up to revision %d of %d: %w", reached, revision, ctx.Err())
		}
	}
}

// Violate adds a violation at the current revision. Steps call it.
func (h *History) Violate(format string, args ...any) {
	if len(h.violations) == 0 {
		close(h.violated)
	}
	h.violations = append(h.violations, fmt.Sprintf("revision %d: ", h.revision)+fmt.Sprintf(format, args...))
}

// Violated is closed at the first violation.
func (h *History) Violated() <-chan struct{} { return h.violated }

// Violations returns all violations.
func (h *History) Violations() []string {
	h.Lock()
	defer h.Unlock()
	return slices.Clone(h.violations)
}
