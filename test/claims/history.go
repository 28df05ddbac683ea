// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/install"
	registryresource "github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/test/cluster"
)

// claimKeys is where claims are in etcd.
const claimKeys = extension.StoragePrefix + "/" + multicluster.GroupName + "/" + resource + "/"

// History replays what etcd has committed, and looks at both claims at every revision.
type History struct {
	decoder runtime.Decoder

	mu       sync.Mutex
	reached  int64
	arrived  chan struct{}
	claims   map[string]*multicluster.ClusterClaim
	joinedAs *multicluster.ClusterClaim
	// writes, joins and renames count the events of the claims, the memberships, and the changes of the id's value.
	writes, joins, renames int
	violations             []string
}

// NewHistory returns the history of an empty store.
func NewHistory() *History {
	return &History{
		decoder: serializer.NewCodecFactory(registryresource.NewScheme(install.Install)).UniversalDecoder(multicluster.SchemeGroupVersion),
		arrived: make(chan struct{}), claims: map[string]*multicluster.ClusterClaim{},
	}
}

// Follow replays from the first revision on until the context ends. Members of etcd may be away in between.
func (h *History) Follow(ctx context.Context, client *clientv3.Client) error {
	return cluster.Follow(ctx, client, h.revision, h.take)
}

func (h *History) revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reached
}

// take goes through whole revisions.
func (h *History) take(events []*clientv3.Event) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, e := range events {
		revision := e.Kv.ModRevision
		if err := h.event(e); err != nil {
			return fmt.Errorf("revision %d, %s: %w", revision, e.Kv.Key, err)
		}
		if i+1 == len(events) || events[i+1].Kv.ModRevision != revision {
			h.look(revision)
			h.reached = revision
		}
	}
	close(h.arrived)
	h.arrived = make(chan struct{})
	return nil
}

func (h *History) event(e *clientv3.Event) error {
	name, isClaim := strings.CutPrefix(string(e.Kv.Key), claimKeys)
	if !isClaim || name != id && name != set {
		return nil
	}
	h.writes++
	if e.Type == clientv3.EventTypeDelete {
		delete(h.claims, name)
		return nil
	}
	claim, err := h.decode(e.Kv.Value)
	if err != nil {
		return err
	}
	if before := h.claims[name]; name == id && before != nil && before.Spec.Value != claim.Spec.Value {
		h.renames++
	}
	h.claims[name] = claim
	return nil
}

func (h *History) decode(stored []byte) (*multicluster.ClusterClaim, error) {
	object, err := runtime.Decode(h.decoder, stored)
	if err != nil {
		return nil, err
	}
	claim, ok := object.(*multicluster.ClusterClaim)
	if !ok {
		return nil, errors.New("not a ClusterClaim")
	}
	return claim, nil
}

// look checks the rules at one revision.
func (h *History) look(revision int64) {
	violated := func(format string, args ...any) {
		h.violations = append(h.violations, fmt.Sprintf("revision %d: ", revision)+fmt.Sprintf(format, args...))
	}
	current, member := h.claims[id], h.claims[set]
	switch {
	case member == nil:
		h.joinedAs = nil
	case current == nil:
		violated("a member of the set %q without an id", member.Spec.Value)
	case current.DeletionTimestamp != nil:
		violated("the id %q of a member of the set %q is being deleted", current.Spec.Value, member.Spec.Value)
	case h.joinedAs == nil:
		h.joinedAs = current
		h.joins++
	case h.joinedAs.Spec.Value != current.Spec.Value || h.joinedAs.UID != current.UID:
		violated("a member of the set %q that joined as %q is %q", member.Spec.Value, h.joinedAs.Spec.Value, current.Spec.Value)
		h.joinedAs = current
	}
}

// WaitFor waits until the history has reached a revision.
func (h *History) WaitFor(ctx context.Context, revision int64) error {
	for {
		h.mu.Lock()
		reached, arrived := h.reached, h.arrived
		h.mu.Unlock()
		if reached >= revision {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return fmt.Errorf("etcd's history was seen up to revision %d, and not to %d: %w", reached, revision, ctx.Err())
		}
	}
}

// Violations are the moments at which a rule did not hold.
func (h *History) Violations() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.violations...)
}

// String says what was seen.
func (h *History) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprintf("%d revisions with %d writes of the claims: %d memberships, %d changes of the id", h.reached, h.writes, h.joins, h.renames)
}
