// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/install"
	registryresource "github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/test/robustness/validate"
)

// claimKeys is where claims are in etcd.
const claimKeys = extension.StoragePrefix + "/" + multicluster.GroupName + "/" + resource + "/"

// History replays what etcd has committed, and looks at both claims at every revision.
type History struct {
	*validate.History
	decoder runtime.Decoder

	claims   map[string]*multicluster.ClusterClaim
	joinedAs *multicluster.ClusterClaim
	// writes, joins and renames count the events of the claims, the memberships, and the changes of the id's value.
	writes, joins, renames int
}

// NewHistory returns the history of an empty store.
func NewHistory() *History {
	return &History{
		History: validate.NewHistory(0),
		decoder: serializer.NewCodecFactory(registryresource.NewScheme(install.Install)).UniversalDecoder(multicluster.SchemeGroupVersion),
		claims:  map[string]*multicluster.ClusterClaim{},
	}
}

// Follow replays from the first revision on until the context ends. Members of etcd may be away in between.
func (h *History) Follow(ctx context.Context, client *clientv3.Client) error {
	return h.History.Follow(ctx, client, h.step)
}

// step checks one revision.
func (h *History) step(_ int64, events []*clientv3.Event) error {
	for _, e := range events {
		if err := h.event(e); err != nil {
			return fmt.Errorf("%s: %w", e.Kv.Key, err)
		}
	}
	h.look()
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

// look checks the rules after a revision.
func (h *History) look() {
	current, member := h.claims[id], h.claims[set]
	switch {
	case member == nil:
		h.joinedAs = nil
	case current == nil:
		h.Violate("a member of the set %q without an id", member.Spec.Value)
	case current.DeletionTimestamp != nil:
		h.Violate("the id %q of a member of the set %q is being deleted", current.Spec.Value, member.Spec.Value)
	case h.joinedAs == nil:
		h.joinedAs = current
		h.joins++
	case h.joinedAs.Spec.Value != current.Spec.Value || h.joinedAs.UID != current.UID:
		h.Violate("a member of the set %q that joined as %q is %q", member.Spec.Value, h.joinedAs.Spec.Value, current.Spec.Value)
		h.joinedAs = current
	}
}

// String says what was seen.
func (h *History) String() string {
	revision := h.Revision()
	h.Lock()
	defer h.Unlock()
	return fmt.Sprintf("%d revisions with %d writes of the claims: %d memberships, %d changes of the id", revision, h.writes, h.joins, h.renames)
}
