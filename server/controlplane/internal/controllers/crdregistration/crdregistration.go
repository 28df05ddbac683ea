// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crdregistration has an APIService for every served version of a CustomResourceDefinition, so that the aggregator
// routes it.
package crdregistration

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	crdlisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const (
	// Custom resources come after everything built in, and their versions in the order that version names have.
	groupPriority   = 1000
	versionPriority = 100
)

// Registry knows which APIServices there should be.
type Registry interface {
	AddAPIServiceToSync(*apiregistrationv1.APIService)
	RemoveAPIServiceToSync(name string)
}

// Controller tells a Registry what CustomResourceDefinitions ask for.
type Controller struct {
	informer cache.SharedIndexInformer
	lister   crdlisters.CustomResourceDefinitionLister
	registry Registry
	synced   chan struct{}
}

// New returns a controller that follows the informer, which others start.
func New(informer crdinformers.CustomResourceDefinitionInformer, registry Registry) *Controller {
	return &Controller{informer: informer.Informer(), lister: informer.Lister(), registry: registry, synced: make(chan struct{})}
}

// Synced is closed when the registry has been told of all definitions that existed at the start. A registry that works
// earlier would take their APIServices for leftovers.
func (c *Controller) Synced() <-chan struct{} { return c.synced }

// Run follows definitions until the context ends.
//
// Handlers are called one after the other and do nothing but compare lists in memory, so there is no queue.
func (c *Controller) Run(ctx context.Context) {
	registration, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.update(obj.(*apiextensionsv1.CustomResourceDefinition)) },
		UpdateFunc: func(old, obj any) {
			// A version may have gone from one to the other.
			c.update(old.(*apiextensionsv1.CustomResourceDefinition))
			c.update(obj.(*apiextensionsv1.CustomResourceDefinition))
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
				c.update(definition)
			}
		},
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Following CustomResourceDefinitions")
		return
	}
	defer func() { _ = c.informer.RemoveEventHandler(registration) }()
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		close(c.synced)
	}
	<-ctx.Done()
}

// update registers those versions of the definition that any definition serves, and takes back the others.
func (c *Controller) update(definition *apiextensionsv1.CustomResourceDefinition) {
	for _, version := range definition.Spec.Versions {
		gv := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
		name := gv.Version + "." + gv.Group
		if !c.served(gv) {
			c.registry.RemoveAPIServiceToSync(name)
			continue
		}
		c.registry.AddAPIServiceToSync(&apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: gv.Group, Version: gv.Version,
				GroupPriorityMinimum: groupPriority, VersionPriority: versionPriority,
			},
		})
	}
}

func (c *Controller) served(gv schema.GroupVersion) bool {
	// Listing from memory cannot fail.
	definitions, _ := c.lister.List(labels.Everything())
	for _, definition := range definitions {
		if definition.Spec.Group != gv.Group {
			continue
		}
		for _, version := range definition.Spec.Versions {
			if version.Name == gv.Version && version.Served {
				return true
			}
		}
	}
	return false
}
