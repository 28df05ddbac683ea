// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// definitions are the kinds of custom resources. Their names are those of the kinds, such as widgets.example.com.
var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// handler puts what may have to be decided upon into the queue.
func (c *Controller) handler(resource schema.GroupResource) cache.ResourceEventHandler {
	// What defines kinds tells when to ask for them.
	defines := resource.Group == "apiextensions.k8s.io" || resource.Group == "apiregistration.k8s.io"
	heard := func() {
		if defines {
			c.kindsChanged()
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			heard()
			if resource == definitions {
				c.defines(schema.ParseGroupResource(obj.(*meta).Name))
			}
			c.appeared(resource, obj.(*meta))
		},
		UpdateFunc: func(old, obj any) {
			heard()
			c.changedFrom(resource, old.(*meta), obj.(*meta))
		},
		DeleteFunc: func(obj any) {
			heard()
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if gone, ok := obj.(*meta); ok {
				if resource == definitions {
					c.undefines(schema.ParseGroupResource(gone.Name))
				}
				c.gone(gone)
			}
		},
	}
}

// defines remembers that a kind has, or had, a definition.
func (c *Controller) defines(resource schema.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.defined[resource] = time.Time{}
	if c.monitors[resource] == nil {
		c.unserved[resource] = time.Now()
	}
}

func (c *Controller) undefines(resource schema.GroupResource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unserved, resource)
}

func (c *Controller) add(resource schema.GroupResource, obj *meta) {
	o := object{resource: resource, namespace: obj.Namespace, name: obj.Name, uid: obj.UID}
	if obj.DeletionTimestamp != nil && has(obj, metav1.FinalizerOrphanDependents) {
		c.queue.AddAfter(o, catchUp)
		return
	}
	c.queue.Add(o)
}

func (c *Controller) appeared(resource schema.GroupResource, obj *meta) {
	if len(obj.OwnerReferences) > 0 || isOurs(obj) {
		c.add(resource, obj)
	}
}

// isOurs reports whether the deletion of an object waits for the collector.
func isOurs(obj *meta) bool {
	return obj.DeletionTimestamp != nil && (has(obj, metav1.FinalizerDeleteDependents) || has(obj, metav1.FinalizerOrphanDependents))
}

func (c *Controller) changedFrom(resource schema.GroupResource, old, obj *meta) {
	if old.UID != obj.UID {
		c.gone(old)
		c.appeared(resource, obj)
		return
	}
	sameOwners := equality.Semantic.DeepEqual(old.OwnerReferences, obj.OwnerReferences)
	if !sameOwners {
		c.lookAtOwners(old)
	}
	if isOurs(obj) || len(obj.OwnerReferences) > 0 && !sameOwners {
		c.add(resource, obj)
	}
	if waits(obj) && !waits(old) {
		// One that is deleted in the foreground itself no longer waits to be deleted.
		c.lookAtOwners(obj)
	}
}

// gone has the dependents of an object decided upon, and its owners if they wait for it. That it is gone has to be asked for once more:
// an object whose stored bytes cannot be read is deleted as far as watches tell.
func (c *Controller) gone(obj *meta) {
	c.mu.Lock()
	delete(c.expanded, obj.UID)
	c.mu.Unlock()
	c.addDependents(obj.UID)
	c.lookAtOwners(obj)
}

func (c *Controller) addDependents(owner types.UID) {
	for _, dependent := range c.dependents(owner) {
		c.add(dependent.m.resource.GroupResource(), dependent.meta)
	}
}

// lookAtBlocked has all objects looked at whose deletion waits for the controller, and in turn their dependents once more.
func (c *Controller) lookAtBlocked() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for resource, m := range c.monitors {
		for _, obj := range m.indexed(blocked, "") {
			delete(c.expanded, obj.UID)
			c.add(resource, obj)
		}
	}
}

// lookAtOwners has those owners of an object looked at that are deleted in the foreground, soon but not with every dependent.
func (c *Controller) lookAtOwners(obj *meta) {
	for _, ref := range obj.OwnerReferences {
		if m, owner := c.find(ref, obj.Namespace); owner != nil && waits(owner) {
			c.queue.AddAfter(m.object(owner), settle)
		}
	}
}
