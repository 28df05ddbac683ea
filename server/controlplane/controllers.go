// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/controllers/autoregister"

	"github.com/kube-annex/annex/server/controlplane/controllers/authenticationtrust"
	"github.com/kube-annex/annex/server/controlplane/controllers/crdregistration"
	"github.com/kube-annex/annex/server/controlplane/controllers/flowcontrol"
	"github.com/kube-annex/annex/server/controlplane/controllers/systemnamespaces"
)

// registrationWorkers is how many APIServices are written at once.
const registrationWorkers = 5

// controllers are what runs beside the servers in every replica.
type controllers struct {
	run    []func(context.Context)
	checks []healthz.HealthChecker
	// namespaces is closed when the system namespaces exist.
	namespaces <-chan struct{}
}

// controllers makes them; it starts none.
func (s *Server) controllers(c *chain) (*controllers, error) {
	namespaces := systemnamespaces.New(c.client, s.systemNamespaces()...)
	all := &controllers{
		namespaces: namespaces.Exist(),
		run:        []func(context.Context){namespaces.Run},
		checks:     []healthz.HealthChecker{healthz.NamedCheck("system-namespaces", namespaces.Check)},
	}
	local := s.localAPIServices(c)
	if c.aggregator != nil {
		if err := all.register(c, local); err != nil {
			return nil, err
		}
	}
	if s.options.serve(namespaceKind, leaseKind) {
		identity, err := s.identity(c, namespaces.Exist())
		if err != nil {
			return nil, err
		}
		all.run = append(all.run, identity)
	}
	if s.options.serve(configMapKind) {
		trust := authenticationtrust.New(c.client, c.trust, namespaces.Exist())
		all.run = append(all.run, trust.Run)
		all.checks = append(all.checks, healthz.NamedCheck("authentication-trust", trust.Check))
	}
	if s.options.runs(flowControlController) && s.options.queues() {
		flow := flowcontrol.NewExistence(c.config.SharedInformerFactory.Flowcontrol().V1(), s.options.FlowSchemas)
		all.checks = append(all.checks, healthz.NamedCheck("flow-schemas", flow.Check))
	}
	if policy := c.access.policy; policy != nil {
		all.run = append(all.run, func(ctx context.Context) { policy.Run(ctx, namespaces.Exist()) })
		all.checks = append(all.checks, healthz.NamedCheck("bootstrap-roles", policy.Check))
	}
	return all, nil
}

// register adds what keeps an APIService for everything that is served here.
func (all *controllers) register(c *chain, local []*apiregistrationv1.APIService) error {
	services := c.aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices()
	client, err := apiregistrationclient.NewForConfig(c.config.LoopbackClientConfig)
	if err != nil {
		return fmt.Errorf("make the loopback client for APIServices: %w", err)
	}
	registration := autoregister.NewAutoRegisterController(services, client)
	for _, service := range local {
		registration.AddAPIServiceToSyncOnStart(service)
	}
	known := make(chan struct{})
	if c.customResources == nil {
		close(known)
	} else {
		definitions := crdregistration.New(c.customResources.Informers.Apiextensions().V1().CustomResourceDefinitions(), registration)
		all.run = append(all.run, definitions.Run, func(ctx context.Context) {
			select {
			case <-definitions.Synced():
				close(known)
			case <-ctx.Done():
			}
		})
	}
	all.run = append(all.run, func(ctx context.Context) {
		select {
		case <-known:
			registration.Run(registrationWorkers, ctx.Done())
		case <-ctx.Done():
		}
	})
	all.checks = append(all.checks, healthz.NamedCheck("local-apiservices", allAvailable(services.Lister(), local)))
	return nil
}

// systemNamespaces returns those that the server keeps in existence.
func (s *Server) systemNamespaces() []string {
	if !s.options.serve(namespaceKind) {
		return nil
	}
	return systemNamespaces()
}

// addReadinessChecks makes /readyz wait until the controllers have brought about what clients count on.
func (s *Server) addReadinessChecks(c *chain, controllers *controllers) error {
	if err := c.front().AddReadyzChecks(controllers.checks...); err != nil {
		return fmt.Errorf("add readiness checks: %w", err)
	}
	return nil
}

// localAPIServices returns an APIService for everything built in, and puts it in order in discovery.
func (s *Server) localAPIServices(c *chain) []*apiregistrationv1.APIService {
	var services []*apiregistrationv1.APIService
	known := priorities()
	for _, group := range s.options.kinds.More() {
		known[group.Version] = ownPriority
	}
	for gv, p := range known {
		c.config.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(gv), int(p.group), int(p.version))
	}
	for _, path := range c.native.ListedPaths() {
		gv, ok := versionOf(path)
		p, listed := known[gv]
		if !ok || !listed {
			continue
		}
		services = append(services, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: p.group, VersionPriority: p.version,
			},
		})
	}
	return services
}

// versionOf returns the group-version that is served under a path.
func versionOf(path string) (schema.GroupVersion, bool) {
	if path == "/api/v1" {
		return schema.GroupVersion{Version: "v1"}, true
	}
	parts := strings.Split(path, "/")
	if len(parts) != 4 || parts[1] != "apis" {
		return schema.GroupVersion{}, false
	}
	return schema.GroupVersion{Group: parts[2], Version: parts[3]}, true
}
