// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcediscovery"
)

// firstAsk and lastAsk bound how soon it is asked again whether there is a kind. It is asked at once when one is defined.
const (
	firstAsk = 100 * time.Millisecond
	lastAsk  = 30 * time.Second
)

// kinds remember which kinds there are.
type kinds struct {
	find func(context.Context, schema.GroupResource) (*resourcediscovery.Kind, error)
	now  func() time.Time

	mu      sync.Mutex
	answers map[schema.GroupResource]answer
}

// answer says that there is a kind, or when to ask again.
type answer struct {
	resource schema.GroupVersionResource
	found    bool
	asked    time.Time
	again    time.Duration
}

func newKinds(find func(context.Context, schema.GroupResource) (*resourcediscovery.Kind, error), now func() time.Time) *kinds {
	return &kinds{find: find, now: now, answers: map[schema.GroupResource]answer{}}
}

// resolve returns what to ask for objects of a kind, or when it may be worth to try again.
func (k *kinds) resolve(ctx context.Context, name schema.GroupResource) (schema.GroupVersionResource, time.Duration, error) {
	k.mu.Lock()
	last, asked := k.answers[name]
	k.mu.Unlock()
	if asked && last.found {
		return last.resource, 0, nil
	}
	if asked {
		if wait := last.again - k.now().Sub(last.asked); wait > 0 {
			return schema.GroupVersionResource{}, wait, nil
		}
	}
	found, err := k.find(ctx, name)
	if err != nil {
		return schema.GroupVersionResource{}, 0, err
	}
	next := answer{asked: k.now(), again: min(max(2*last.again, firstAsk), lastAsk)}
	if found != nil && found.Namespaced && found.Can("create", "list", "watch", "delete") {
		next = answer{found: true, resource: found.GroupVersionResource}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.answers[name] = next
	if next.found {
		return next.resource, 0, nil
	}
	return schema.GroupVersionResource{}, next.again, nil
}

// forget has it asked again whether there is a kind.
func (k *kinds) forget(name schema.GroupResource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.answers, name)
}

// defined is forget for a kind that is not known to be there.
func (k *kinds) defined(name schema.GroupResource) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.answers[name].found {
		delete(k.answers, name)
	}
}
