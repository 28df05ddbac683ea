// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"

	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/server/featuregating/gates"
)

// Resources are the gated resources of one server.
type Resources struct {
	gates      map[schema.GroupVersionResource]string
	permission func(gate string) resource.Permission
	discovery  *discovery

	mu sync.Mutex
	// served has the gates whose resources are there, each with what is closed when they no longer are.
	served map[string]chan struct{}
}

// NewResources returns the resources with what their features permit now.
func NewResources(gated []gates.GatedResource, permission func(gate string) resource.Permission) *Resources {
	r := &Resources{gates: map[schema.GroupVersionResource]string{}, permission: permission, served: map[string]chan struct{}{}}
	for _, one := range gated {
		r.gates[one.GroupVersionResource] = one.Gate
	}
	r.discovery = &discovery{hidden: r.hidden}
	r.Update()
	return r
}

// ApplyTo removes resources whose features are off from aggregated discovery. WithGatedResources does the rest.
func (r *Resources) ApplyTo(config *genericapiserver.Config) {
	if len(r.gates) == 0 {
		return
	}
	r.discovery.applyTo(config)
}

// Update asks the features what they permit, and makes it so. Calls must not overlap.
func (r *Resources) Update() {
	changed := false
	r.mu.Lock()
	for _, gate := range r.gates {
		gone, is := r.served[gate]
		switch now := r.permission(gate) != resource.Off; {
		case now && !is:
			r.served[gate] = make(chan struct{})
			changed = true
		case !now && is:
			close(gone)
			delete(r.served, gate)
			changed = true
		}
	}
	r.mu.Unlock()
	if changed {
		r.discovery.update()
	}
}

// Published tells about which features OpenAPI speaks: those of resources that are there, and those that are permitted otherwise. A
// feature that gates resources as well as fields shows its fields for as long as its resources.
func (r *Resources) Published(permitted func(gate string) bool) func(gate string) bool {
	return func(gate string) bool {
		for _, of := range r.gates {
			if of == gate {
				return r.permission(gate) != resource.Off
			}
		}
		return permitted(gate)
	}
}

// hidden tells whether a resource is gated and not there.
func (r *Resources) hidden(gvr schema.GroupVersionResource) bool {
	gate, gated := r.gates[gvr]
	if !gated {
		return false
	}
	_, served := r.presence(gate)
	return !served
}

// presence tells whether the resources of a gate are there, and what is closed when they no longer are.
func (r *Resources) presence(gate string) (gone <-chan struct{}, served bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone, served = r.served[gate]
	return gone, served
}
