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

// Server has the dependencies of a chain.
type Server struct {
	// ID identifies the server in metrics.
	ID string
	// Client reads configurations, and Dynamic the parameters of policies.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Informers have the namespaces. The caller of New starts them.
	Informers informers.SharedInformerFactory
	// ProtectedNamespaces cannot be deleted.
	ProtectedNamespaces []string
	// Serves reports whether the server has a kind that plugins need; nil means that it has all. The result does not change.
	Serves func(schema.GroupResource) bool
	// Kinds returns the host's resources of admissionregistration.k8s.io/v1; nil for a server that has them itself. It is called repeatedly.
	Kinds func(context.Context) (sets.Set[string], error)
	// Groups are the API groups of the server; other configurations of the host are ignored.
	Groups []string
	// Schemas has the OpenAPI of the server's kinds.
	Schemas openapi.Client
	// Services resolves webhooks that are services, and Credentials authenticates to webhooks.
	Services    webhook.ServiceResolver
	Credentials webhook.AuthenticationInfoResolverWrapper

	Authorizer authorizer.Authorizer
	Gates      featuregate.FeatureGate
	Version    compatibility.EffectiveVersion
	// Drained is closed after the last request.
	Drained <-chan struct{}
}

// Chain is the admission of one server.
type Chain struct {
	server         Server
	configurations configurations
	groups         groups
	core           core.Interface
	mapper         *learningMapper
	// empty is the namespace informer of a server without namespaces.
	empty       cache.SharedIndexInformer
	lazyPlugins []*lazyPlugin
	handler     admission.Interface
}

// New builds the chain. It starts nothing; Run follows the configurations.
func New(options Options, server Server) (*Chain, error) {
	c := &Chain{server: server, groups: server.Groups, core: server.Informers.Core(), mapper: newLearningMapper(server.Client.Discovery())}
	var err error
	if c.configurations, err = options.configurations(); err != nil {
		return nil, err
	}
	unwanted := slices.Clone(options.DisabledPlugins)
	if !c.serves(corev1.Resource("namespaces")) {
		namespaces := newNoNamespaces(c.core)
		c.core, c.empty = namespaces, namespaces.informer
		unwanted = append(unwanted, NamespaceLifecycle)
	} else {
		c.core.V1().Namespaces().Informer() // started with the informers of the server
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

// Handler returns the admission chain.
func (c *Chain) Handler() admission.Interface { return c.handler }

// Mapper returns a mapper for the kinds that configurations refer to.
func (c *Chain) Mapper() meta.RESTMapper { return c.mapper }

// Name implements healthz.HealthChecker.
func (c *Chain) Name() string { return "admission" }

// Check returns an error until all configurations have been read.
func (c *Chain) Check(*http.Request) error {
	var pending []error
	for _, plugin := range c.lazyPlugins {
		pending = append(pending, plugin.pending())
	}
	return errors.Join(pending...)
}

func (c *Chain) serves(kind schema.GroupResource) bool {
	return c.server.Serves == nil || c.server.Serves(kind)
}

// plugins registers the plugins with these names.
func (c *Chain) plugins(added []Plugin, names []string) *admission.Plugins {
	plugins := admission.NewPlugins()
	plugins.Register(NamespaceLifecycle, func(io.Reader) (admission.Interface, error) {
		return lifecycle.NewLifecycle(sets.New(c.server.ProtectedNamespaces...))
	})
	for _, plugin := range added {
		plugins.Register(plugin.Name, plugin.New)
	}
	for _, definition := range definitions() {
		if !slices.Contains(names, definition.name) {
			continue
		}
		plugin := newLazyPlugin(definition)
		c.lazyPlugins = append(c.lazyPlugins, plugin)
		plugins.Register(definition.name, func(io.Reader) (admission.Interface, error) {
			if definition.mutates {
				return mutating{plugin}, nil
			}
			return validating{plugin}, nil
		})
	}
	return plugins
}

// initializers set the dependencies of plugins; end stops them.
func (c *Chain) initializers(end <-chan struct{}, sources informers.SharedInformerFactory, schemas openapi.Client) admission.PluginInitializers {
	s := c.server
	return admission.PluginInitializers{
		initializer.NewAPIServerIDInitializer(s.ID),
		initializer.New(withSchemas{s.Client, schemas}, s.Dynamic, sources, s.Authorizer, s.Gates, s.Version, end, c.mapper),
		webhookinitializer.NewPluginInitializer(s.Credentials, s.Services),
		withoutReviews{},
	}
}

// withoutReviews excludes reviews from admission.
type withoutReviews struct{}

// Initialize implements admission.PluginInitializer.
func (withoutReviews) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsExcludedAdmissionResources); ok {
		wants.SetExcludedAdmissionResources(admissionregistration.ExemptResources())
	}
}
