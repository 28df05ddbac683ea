// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kube-annex/annex/controllers/leadership"
)

// foreground lets an object go that is deleted in the foreground, once no dependent blocks it.
func (c *Controller) foreground(ctx context.Context, m *monitor, obj *meta) error {
	if !c.allKnown() {
		c.queue.AddAfter(m.object(obj), settle)
		return nil
	}
	dependents := c.dependents(obj.UID)
	c.mu.Lock()
	before := c.expanded[obj.UID]
	c.expanded[obj.UID] = true
	c.mu.Unlock()
	blocked := false
	for _, d := range dependents {
		if !before {
			c.add(d.m.resource.GroupResource(), d.meta)
		}
		ref, _ := refersTo(d.meta, obj.UID)
		blocked = blocked || blocks(ref)
	}
	if blocked {
		return nil
	}
	return c.removeFinalizer(ctx, m, obj, metav1.FinalizerDeleteDependents)
}

// orphan takes an object from the owners of all its dependents, and lets it go.
func (c *Controller) orphan(ctx context.Context, m *monitor, obj *meta) error {
	if !c.allKnown() {
		c.queue.AddAfter(m.object(obj), settle)
		return nil
	}
	var mu sync.Mutex
	var failures []error
	places := make(chan struct{}, workers)
	var running sync.WaitGroup
	dependents := c.dependents(obj.UID)
	for _, d := range dependents {
		if d.m.away.Load() {
			return fmt.Errorf("%s, of which its dependent %s is one, are not served at the moment", d.m.resource.GroupResource(), d.Name)
		}
	}
	for _, d := range dependents {
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			err := leadership.Call(ctx, func(ctx context.Context) error {
				return c.setOwners(ctx, d.m, d.meta, func(refs []metav1.OwnerReference) []metav1.OwnerReference {
					return without(refs, sets.New[types.UID](obj.UID))
				})
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			}
		})
	}
	running.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return c.removeFinalizer(ctx, m, obj, metav1.FinalizerOrphanDependents)
}
