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

// newInformers returns those of the configurations of one plugin.
func (c *Chain) newInformers() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(c.server.Client, resync, informers.WithTransform(c.groups.keep))
}

// sources are what one plugin learns from: its configurations, namespaces, which the server follows anyway, and the parameters of policies.
type sources struct {
	informers.SharedInformerFactory
	client kubernetes.Interface
	core   core.Interface

	mu         sync.Mutex
	parameters []informers.SharedInformerFactory
}

func (c *Chain) newSources(configurations informers.SharedInformerFactory) *sources {
	return &sources{SharedInformerFactory: configurations, client: c.server.Client, core: c.core}
}

// Core implements informers.SharedInformerFactory.
func (s *sources) Core() core.Interface { return s.core }

// ForResource is how the library gets an informer of parameters. It ends each one with the last policy that needs it, and expects it to
// be as new for the next policy, which the one of a shared factory would not be: it has stopped, and what it knows is out of date.
func (s *sources) ForResource(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
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

// Start is what the library calls after ForResource, with the end of the informer.
func (s *sources) Start(stop <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, factory := range s.parameters {
		factory.Start(stop)
	}
	s.parameters = nil
}
