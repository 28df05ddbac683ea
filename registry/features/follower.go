// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/features"
	"github.com/kube-annex/annex/registry/resource"
)

// Follower knows what features permit without asking the store. It is for what is shown: writes ask Permits.
type Follower struct {
	permits *Permits

	mu      sync.Mutex
	known   map[string]resource.Permission
	changed []func()
}

// NewFollower returns a follower of the Features that permits answers from. Until it runs it knows the process's own gates.
func NewFollower(permits *Permits) *Follower {
	return &Follower{permits: permits}
}

// OnChange has a function called when the follower has seen the Features for the first time, and whenever what any of them permits has
// changed. Calls are made one at a time. It must be called before Run.
func (f *Follower) OnChange(changed func()) { f.changed = append(f.changed, changed) }

// Permission returns what a feature permits, as far as the follower knows.
func (f *Follower) Permission(gate string) resource.Permission {
	f.mu.Lock()
	known, ok := f.known[gate]
	f.mu.Unlock()
	if ok {
		return known
	}
	return f.permits.permission(gate, nil)
}

// Permitted tells whether a feature permits use, as far as the follower knows.
func (f *Follower) Permitted(gate string) bool { return f.Permission(gate) == resource.Permitted }

// Run follows until the context ends. While the Features cannot be read, what was known last stays.
func (f *Follower) Run(ctx context.Context) {
	ctx = genericapirequest.WithNamespace(ctx, f.permits.namespace)
	backoff := wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 8, Cap: 5 * time.Second, Jitter: 0.2}
	delay := backoff
	for ctx.Err() == nil {
		began := time.Now()
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Following the features has to begin anew", "err", err)
		}
		// One that has been at work for a while has done nothing wrong.
		if time.Since(began) > time.Minute {
			delay = backoff
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay.Step()):
		}
	}
}

// follow reads all Features and then what becomes of them, until the store ends it.
func (f *Follower) follow(ctx context.Context) error {
	stored := f.permits.stored.Load()
	if stored == nil {
		return errNotInstalled
	}
	out, err := stored.store.List(ctx, &metainternalversion.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the features: %w", err)
	}
	list := out.(*features.FeatureList)
	now := make(map[string]resource.Permission, len(list.Items))
	for i := range list.Items {
		now[list.Items[i].Name] = f.permits.permission(list.Items[i].Name, &list.Items[i])
	}
	f.become(now)
	events, err := stored.store.Watch(ctx, &metainternalversion.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return fmt.Errorf("watch the features: %w", err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("watch the features: %w", apierrors.FromObject(event.Object))
		}
		object := event.Object
		// The watch cache wraps what it sends to several watchers, so that it is encoded once.
		if shared, ok := object.(runtime.CacheableObject); ok {
			object = shared.GetObject()
		}
		feature, ok := object.(*features.Feature)
		if !ok {
			return fmt.Errorf("watch the features: got a %T", object)
		}
		next := maps.Clone(now)
		if event.Type == watch.Deleted {
			delete(next, feature.Name)
		} else {
			next[feature.Name] = f.permits.permission(feature.Name, feature)
		}
		f.become(next)
		now = next
	}
	return nil
}

// become makes known what the features permit, and tells of it if it is news.
func (f *Follower) become(permissions map[string]resource.Permission) {
	f.mu.Lock()
	news := f.known == nil || !maps.Equal(f.known, permissions)
	f.known = permissions
	f.mu.Unlock()
	if !news {
		return
	}
	for _, changed := range f.changed {
		changed()
	}
}
