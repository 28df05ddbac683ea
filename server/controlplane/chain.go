// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net"
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/client-go/tools/cache"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/server/controlplane/aggregator"
	"github.com/kube-annex/annex/server/controlplane/inprocess"
	"github.com/kube-annex/annex/server/openapi"
	"github.com/kube-annex/annex/server/options"
)

// What signalDefinitionsSynced replaces.
const (
	upstreamSyncedHook   = "crd-informer-synced"
	upstreamSyncedSignal = "CRDInformerHasNotSynced"
)

// chain is the three servers, each delegating to the next.
type chain struct {
	*foundation
	customResources *apiextensionsapiserver.CustomResourceDefinitions
	native          *genericapiserver.GenericAPIServer
	aggregator      *aggregator.Aggregator
	// frontProxy is what is shown to the servers behind remote APIServices; nil where nothing is.
	frontProxy *dynamiccertificates.DynamicCertKeyPairContent
	// shortcut is nil where no server is in this process.
	shortcut *inprocess.Shortcut
}

// destroy stops what the constructors have started, where the chain is not going to run.
func (c *chain) destroy() {
	switch {
	case c.aggregator != nil:
		c.aggregator.GenericAPIServer.Destroy()
	case c.native != nil:
		c.native.Destroy()
	case c.customResources != nil:
		c.customResources.GenericAPIServer.Destroy()
	}
}

// build makes the chain from its end. Long requests end on onStop.
func (s *Server) build(onStop onStop, listener net.Listener) (*chain, error) {
	foundation, err := s.foundation(onStop, listener)
	if err != nil {
		return nil, err
	}
	c := &chain{foundation: foundation}
	if err := s.assemble(c); err != nil {
		c.destroy()
		return nil, err
	}
	return c, nil
}

// front is the server that requests reach first.
func (c *chain) front() *genericapiserver.GenericAPIServer {
	if c.aggregator != nil {
		return c.aggregator.GenericAPIServer
	}
	return c.native
}

func (s *Server) assemble(c *chain) error {
	// Both are made from the configuration of the native kinds as long as that is not completed.
	customResources, err := s.customResourcesConfig(c.foundation)
	if err != nil {
		return err
	}
	s.servers.Resolver = s.options.ServiceResolver
	if s.options.ProxyClientCertFile != "" {
		if c.frontProxy, err = dynamiccertificates.NewDynamicServingContentFromFiles("aggregator-proxy-cert", s.options.ProxyClientCertFile, s.options.ProxyClientKeyFile); err != nil {
			return fmt.Errorf("read --proxy-client-cert-file and --proxy-client-key-file: %w", err)
		}
		s.servers.ClientCertificate = c.frontProxy.CurrentCertKeyContent
	}
	if s.options.InProcess != nil {
		c.shortcut = inprocess.New(s.options.InProcess, inprocess.NewIdentity(s.servers.Certificate))
	}
	front, err := s.aggregatorConfig(c)
	if err != nil {
		return err
	}
	behind := genericapiserver.NewEmptyDelegateWithCustomHandler(notfoundhandler.New(c.codecs, filters.NoMuxAndDiscoveryIncompleteKey))
	if !s.options.WithoutCustomResources {
		if c.customResources, err = customResources.Complete().New(behind); err != nil {
			return fmt.Errorf("build the server of custom resources: %w", err)
		}
		if err = signalDefinitionsSynced(c.customResources); err != nil {
			return err
		}
		behind = refuseProtobuf(c.customResources, c.codecs)
	}
	if err = s.addNative(c, behind); err != nil {
		return err
	}
	if !s.options.WithoutAggregator {
		if c.aggregator, err = aggregator.New(aggregator.Config{Generic: front, Servers: s.servers}, c.native); err != nil {
			return fmt.Errorf("build the aggregator: %w", err)
		}
		if c.shortcut != nil {
			c.shortcut.Follow(c.aggregator.APIRegistrationInformers.Apiregistration().V1().APIServices().Lister())
		}
	}
	c.front().ShutdownTimeout = options.DrainTimeout
	return nil
}

// addNative builds the server of the native kinds in front of what is behind it.
func (s *Server) addNative(c *chain, behind genericapiserver.DelegationTarget) error {
	publisher := openapi.NewPublisher(openapi.Gated{}, nil)
	publisher.ApplyTo(&c.config.Config)
	completed := c.config.Complete()
	var err error
	if c.native, err = completed.New(Name, behind); err != nil {
		return fmt.Errorf("build the server of native kinds: %w", err)
	}
	if err = s.options.kinds.Install(c.native, c.scheme, c.codecs, completed.RESTOptionsGetter, native.Dependencies{
		Tokens: completed.Authentication.Authenticator, Audiences: completed.Authentication.APIAudiences,
		Access: completed.Authorization.Authorizer, Rules: completed.RuleResolver,
		Mapper: c.admission.Mapper(), ServiceAccounts: s.tokens.Registry(), EventTTL: s.options.EventTTL,
	}); err != nil {
		return err
	}
	s.serveIssuer(c)
	return publisher.Install(c.native)
}

func (s *Server) customResourcesConfig(f *foundation) (*apiextensionsapiserver.Config, error) {
	config, err := f.copyFor(s.backend, apiextensionsapiserver.Scheme, apiextensionsapiserver.Codecs)
	if err != nil {
		return nil, err
	}
	config.MergedResourceConfig = apiextensionsapiserver.DefaultAPIResourceConfigSource()
	config.DisabledPostStartHooks = config.DisabledPostStartHooks.Union(sets.NewString(upstreamSyncedHook))
	storage, err := s.backend.CustomResourceRESTOptions(&config.Config, StoragePrefix)
	if err != nil {
		return nil, err
	}
	return &apiextensionsapiserver.Config{
		GenericConfig: config,
		ExtraConfig: apiextensionsapiserver.ExtraConfig{
			CRDRESTOptionsGetter: storage,
			// With more than one, a new definition would wait 5 s for the other replicas to see it.
			MasterCount:         1,
			ServiceResolver:     f.webhooks.services,
			AuthResolverWrapper: f.webhooks.credentials,
		},
	}, nil
}

// signalDefinitionsSynced replaces the hook that tells when all custom resources are known. Upstream's looks every 100 ms
// and ends the process when the server is told to stop before that; ours waits for the event and returns.
func signalDefinitionsSynced(server *apiextensionsapiserver.CustomResourceDefinitions) error {
	// Nobody is left to give upstream's signal.
	delete(server.GenericAPIServer.MuxAndDiscoveryCompleteSignals(), upstreamSyncedSignal)
	synced := make(chan struct{})
	if err := server.GenericAPIServer.RegisterMuxAndDiscoveryCompleteSignal("CustomResourceDefinitionsSynced", synced); err != nil {
		return fmt.Errorf("register the signal of custom resources: %w", err)
	}
	definitions := server.Informers.Apiextensions().V1().CustomResourceDefinitions().Informer()
	err := server.GenericAPIServer.AddPostStartHook("custom-resource-definitions-synced", func(hook genericapiserver.PostStartHookContext) error {
		if cache.WaitForCacheSync(hook.Done(), definitions.HasSynced) {
			close(synced)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add the hook of custom resources: %w", err)
	}
	return nil
}

func (s *Server) aggregatorConfig(c *chain) (*genericapiserver.RecommendedConfig, error) {
	config, err := c.copyFor(s.backend, aggregatorscheme.Scheme, aggregatorscheme.Codecs)
	if err != nil {
		return nil, err
	}
	withFilters := config.BuildHandlerChainFunc
	config.BuildHandlerChainFunc = func(api http.Handler, config *genericapiserver.Config) http.Handler {
		if c.shortcut != nil {
			api = c.shortcut.InFrontOf(api)
		}
		return withFilters(api, config)
	}
	return config, nil
}
