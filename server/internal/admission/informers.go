// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/kubernetes"
)

// newInformers returns the informers for the configurations of one plugin.
func (c *Chain) newInformers() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(c.server.Client, resync, informers.WithTransform(c.groups.keep))
}

// pluginInformers are the informers of one plugin: its configurations, the namespaces of the server, and the parameters of policies.
type pluginInformers struct {
	informers.SharedInformerFactory
	client kubernetes.Interface
	core   core.Interface

	mu         sync.Mutex
	parameters []informers.SharedInformerFactory
}

func (c *Chain) newPluginInformers(configurations informers.SharedInformerFactory) *pluginInformers {
	return &pluginInformers{SharedInformerFactory: configurations, client: c.server.Client, core: c.core}
}

// Core implements informers.SharedInformerFactory.
func (s *pluginInformers) Core() core.Interface { return s.core }

// ForResource returns a new informer of parameters. The library stops it with the last policy that needs it; a shared factory would return
// the stopped one, with outdated objects, for the next policy.
func (s *pluginInformers) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, resync, informers.WithTransform(groups(nil).keep))
	informer, err := factory.ForResource(resource)
	if err != nil {
		return nil, err
	}
	informer.Informer() // it is known to its factory from now on
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parameters = append(s.parameters, factory)
	return informer, nil
}

// Start starts the informers of ForResource; stop is closed when the library needs them no more.
func (s *pluginInformers) Start(stop <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, factory := range s.parameters {
		factory.Start(stop)
	}
	s.parameters = nil
}
