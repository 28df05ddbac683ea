// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/controllers/leadership"
)

// following has the kinds watched that quotas count.
type following struct {
	// watch tells about a kind until its context ends. It is called in a goroutine of its own.
	watch func(ctx context.Context, kind schema.GroupResource, resource schema.GroupVersionResource)

	mu      sync.Mutex
	kinds   map[schema.GroupResource]*followed
	running sync.WaitGroup
}

type followed struct {
	resource schema.GroupVersionResource
	quotas   map[string]struct{}
	stop     context.CancelFunc
}

func newFollowing(watch func(context.Context, schema.GroupResource, schema.GroupVersionResource)) *following {
	return &following{watch: watch, kinds: map[schema.GroupResource]*followed{}}
}

// follow says which kinds concern a quota from now on. The watches end with the context at the latest.
func (f *following) follow(ctx context.Context, quota string, wanted map[schema.GroupResource]schema.GroupVersionResource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for kind, had := range f.kinds {
		if resource, still := wanted[kind]; still && resource == had.resource {
			continue
		}
		delete(had.quotas, quota)
		if len(had.quotas) == 0 {
			had.stop()
			delete(f.kinds, kind)
		}
	}
	for kind, resource := range wanted {
		have := f.kinds[kind]
		if have == nil || have.resource != resource {
			watching, stop := context.WithCancel(ctx)
			next := &followed{resource: resource, quotas: map[string]struct{}{}, stop: stop}
			if have != nil { // it is served in another version now
				have.stop()
				next.quotas = have.quotas
			}
			have, f.kinds[kind] = next, next
			leadership.Go(ctx, &f.running, func() { f.watch(watching, kind, resource) })
		}
		have.quotas[quota] = struct{}{}
	}
}

// concerned returns the quotas that a kind concerns.
func (f *following) concerned(kind schema.GroupResource) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if have := f.kinds[kind]; have != nil {
		return slices.Collect(maps.Keys(have.quotas))
	}
	return nil
}

// wait returns when all watches have ended.
func (f *following) wait() { f.running.Wait() }
