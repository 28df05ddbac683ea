// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"slices"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// discovery is aggregated discovery without hidden resources. It keeps all versions, to publish hidden resources again.
type discovery struct {
	aggregated.ResourceManager
	hidden func(schema.GroupVersionResource) bool

	mu  sync.Mutex
	all map[schema.GroupVersion]apidiscoveryv2.APIVersionDiscovery
}

func (d *discovery) applyTo(config *genericapiserver.Config) {
	d.ResourceManager = config.AggregatedDiscoveryGroupManager
	if d.ResourceManager == nil {
		d.ResourceManager = aggregated.NewResourceManager("apis")
	}
	d.all = map[schema.GroupVersion]apidiscoveryv2.APIVersionDiscovery{}
	config.AggregatedDiscoveryGroupManager = d
}

// AddGroupVersion implements aggregated.ResourceManager.
func (d *discovery) AddGroupVersion(group string, version apidiscoveryv2.APIVersionDiscovery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[schema.GroupVersion{Group: group, Version: version.Version}] = version
	d.show(group, version)
}

// update publishes all versions again, without what is hidden now.
func (d *discovery) update() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for gv, version := range d.all {
		d.show(gv.Group, version)
	}
}

func (d *discovery) show(group string, version apidiscoveryv2.APIVersionDiscovery) {
	version.Resources = slices.DeleteFunc(slices.Clone(version.Resources), func(resource apidiscoveryv2.APIResourceDiscovery) bool {
		return d.hidden(schema.GroupVersionResource{Group: group, Version: version.Version, Resource: resource.Resource})
	})
	d.ResourceManager.AddGroupVersion(group, version)
}
