// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/registry/native/admissionregistration"
)

// Server is what a chain needs of the server that it admits requests for.
type Server struct {
	// ID tells the server from others in metrics.
	ID string
	// Client reads configurations, and Dynamic the parameters of policies.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Informers know the namespaces. Who made them starts them.
	Informers informers.SharedInformerFactory
	// Immortal are the namespaces that cannot be deleted, if the server has namespaces.
	Immortal []string
	// Serves tells whether there is a kind that plugins need, for a server to which kinds do not come and go. Nil means that there is.
	Serves func(schema.GroupResource) bool
	// Kinds returns the resources of admissionregistration.k8s.io/v1, for a server that does not have them by itself. It is asked again and
	// again.
	Kinds func(context.Context) (sets.Set[string], error)
	// Groups are those of the server, where more than what concerns them may be configured.
	Groups []string
	// Schemas are those of the server's kinds.
	Schemas openapi.Client
	// Services finds webhooks that are services, and Credentials says how webhooks are signed in to.
	Services    webhook.ServiceResolver
	Credentials webhook.AuthenticationInfoResolverWrapper

	Authorizer authorizer.Authorizer
	Gates      featuregate.FeatureGate
	Version    compatibility.EffectiveVersion
	// Drained is closed when no request will come any more.
	Drained <-chan struct{}
}

// Chain is the admission of one server.
type Chain struct {
	server         Server
	configurations configurations
	groups         groups
	core           core.Interface
	mapper         *learningMapper
	// empty is run where there is no kind Namespace.
	empty      cache.SharedIndexInformer
	configured []*configured
	handler    admission.Interface
}

// New builds the chain. It starts nothing, and follows no configurations before Run.
func New(options Options, server Server) (*Chain, error) {
	c := &Chain{server: server, groups: server.Groups, core: server.Informers.Core(), mapper: newLearningMapper(server.Client.Discovery())}
	var err error
	if c.configurations, err = options.configurations(); err != nil {
		return nil, err
	}
	unwanted := slices.Clone(options.Without)
	if !c.serves(corev1.Resource("namespaces")) {
		namespaces := newNoNamespaces(c.core)
		c.core, c.empty = namespaces, namespaces.informer
		unwanted = append(unwanted, NamespaceLifecycle)
	} else {
		c.core.V1().Namespaces().Informer() // those who made the informers start it with theirs
	}
	for _, definition := range definitions() {
		if slices.ContainsFunc(definition.resources(), func(kind schema.GroupResource) bool { return !c.serves(kind) }) {
			unwanted = append(unwanted, definition.name)
		}
	}
	names := options.names(unwanted)
	for name := range c.configurations {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("--%s %s has a configuration of %s, which does not run here; remove it", configFlag, options.ConfigFile, name)
		}
	}
	chain, err := c.plugins(options.Plugins, names).NewFromPlugins(names, c.configurations,
		c.initializers(server.Drained, server.Informers, server.Schemas), admission.DecoratorFunc(metrics.WithControllerMetrics))
	if err != nil {
		return nil, fmt.Errorf("build the admission chain: %w", err)
	}
	c.handler = metrics.WithStepMetrics(chain)
	return c, nil
}

// Handler is what requests have to pass.
func (c *Chain) Handler() admission.Interface { return c.handler }

// Mapper knows the resources of all kinds that the configurations may refer to.
func (c *Chain) Mapper() meta.RESTMapper { return c.mapper }

// Name is that of the readiness check.
func (c *Chain) Name() string { return "admission" }

// Check is an error as long as requests would have to wait for configurations that have not been read yet.
func (c *Chain) Check(*http.Request) error {
	var pending []error
	for _, plugin := range c.configured {
		pending = append(pending, plugin.pending())
	}
	return errors.Join(pending...)
}

func (c *Chain) serves(kind schema.GroupResource) bool {
	return c.server.Serves == nil || c.server.Serves(kind)
}

// plugins knows how to make those of the names.
func (c *Chain) plugins(added []Plugin, names []string) *admission.Plugins {
	plugins := admission.NewPlugins()
	plugins.Register(NamespaceLifecycle, func(io.Reader) (admission.Interface, error) {
		return lifecycle.NewLifecycle(sets.New(c.server.Immortal...))
	})
	for _, plugin := range added {
		plugins.Register(plugin.Name, plugin.New)
	}
	for _, definition := range definitions() {
		if !slices.Contains(names, definition.name) {
			continue
		}
		plugin := newConfigured(definition)
		c.configured = append(c.configured, plugin)
		plugins.Register(definition.name, func(io.Reader) (admission.Interface, error) {
			if definition.mutates {
				return mutating{plugin}, nil
			}
			return validating{plugin}, nil
		})
	}
	return plugins
}

// initializers give plugins what they ask for, until the end of the term that they are made for.
func (c *Chain) initializers(end <-chan struct{}, sources informers.SharedInformerFactory, schemas openapi.Client) admission.PluginInitializers {
	s := c.server
	return admission.PluginInitializers{
		initializer.NewAPIServerIDInitializer(s.ID),
		initializer.New(withSchemas{s.Client, schemas}, s.Dynamic, sources, s.Authorizer, s.Gates, s.Version, end, c.mapper),
		webhookinitializer.NewPluginInitializer(s.Credentials, s.Services),
		withoutReviews{},
	}
}

// withoutReviews tells plugins what they must not act on.
type withoutReviews struct{}

// Initialize implements admission.PluginInitializer.
func (withoutReviews) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(admissionregistration.Unseen())
	}
}
