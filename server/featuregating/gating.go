// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"

	registry "github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/server/openapi"
)

// Gating serves what is gated while the stored Features of one namespace permit it:
//
//	gating := featuregating.NewGating(namespace, gated, configured, nil)
//	gating.ApplyTo(&config.Config)
//	handler = gating.WithGatedResources(handler, config.Serializer) // a filter, after authorization
//	// … build the server, install all API groups, that of gating.Permits included, and then:
//	err = gating.Publisher.Install(server)
//	gating.Follower.Run(ctx)
type Gating struct {
	// Permits decides about writes.
	Permits *registry.Permits
	// Follower decides about what is published, while it runs.
	Follower *registry.Follower
	// Publisher publishes OpenAPI without what is not permitted.
	Publisher *openapi.Publisher

	gates     map[schema.GroupVersionResource]string
	discovery *discovery

	mu sync.Mutex
	// served has the gates whose resources are served, each with the channel that is closed when they no longer are.
	served map[string]chan struct{}
}

// NewGating returns a gating by the Features of a namespace. A gate without a stored Feature has the configured value. A given publisher
// publishes what its owner permits; nil, the usual value, publishes what the Features permit.
func NewGating(namespace string, gated gates.Gated, configured func(gate string) bool, publisher *openapi.Publisher) *Gating {
	permits := registry.NewPermits(namespace, configured)
	g := &Gating{
		Permits: permits, Follower: registry.NewFollower(permits), Publisher: publisher,
		gates: map[schema.GroupVersionResource]string{}, served: map[string]chan struct{}{},
	}
	for _, r := range gated.Resources {
		g.gates[r.GroupVersionResource] = r.Gate
	}
	g.discovery = &discovery{hidden: g.hidden}
	g.update()
	g.Follower.OnChange(g.update)
	if g.Publisher == nil {
		g.Publisher = openapi.NewPublisher(gated, g.published)
		g.Follower.OnChange(func() { g.Publisher.Publish(g.published) })
	}
	return g
}

// ApplyTo sets OpenAPI, which must be configured before, and aggregated discovery.
func (g *Gating) ApplyTo(config *genericapiserver.Config) {
	g.Publisher.ApplyTo(config)
	if len(g.gates) > 0 {
		g.discovery.applyTo(config)
	}
}

// update serves the resources of features that are not Off. Calls must not overlap.
func (g *Gating) update() {
	changed := false
	g.mu.Lock()
	for _, gate := range g.gates {
		gone, isServed := g.served[gate]
		switch isOn := g.Follower.Permission(gate) != resource.Off; {
		case isOn && !isServed:
			g.served[gate] = make(chan struct{})
			changed = true
		case !isOn && isServed:
			close(gone)
			delete(g.served, gate)
			changed = true
		}
	}
	g.mu.Unlock()
	if changed {
		g.discovery.update()
	}
}

// published reports whether OpenAPI has what the feature gates. A feature that gates resources as well as fields shows its fields for as
// long as its resources.
func (g *Gating) published(gate string) bool {
	for _, resourceGate := range g.gates {
		if resourceGate == gate {
			return g.Follower.Permission(gate) != resource.Off
		}
	}
	return g.Follower.Permitted(gate)
}

// hidden reports whether a resource is gated and not served.
func (g *Gating) hidden(gvr schema.GroupVersionResource) bool {
	gate, gated := g.gates[gvr]
	if !gated {
		return false
	}
	_, served := g.presence(gate)
	return !served
}

// presence reports whether the resources of a gate are served, and returns the channel that is closed when they no longer are.
func (g *Gating) presence(gate string) (gone <-chan struct{}, served bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gone, served = g.served[gate]
	return gone, served
}
