// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/endpoints/filters"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/server/controlplane/internal/aggregator"
	"github.com/kube-annex/annex/server/internal/genericserver"
	"github.com/kube-annex/annex/server/openapi"
)

// serverChain is the three servers; each delegates to the next.
type serverChain struct {
	// aggregator and customResources are nil if they are disabled.
	aggregator      *aggregator.Aggregator
	native          *genericapiserver.GenericAPIServer
	customResources *apiextensionsapiserver.CustomResourceDefinitions
}

// newServerChain creates the servers, beginning with the last one.
func newServerChain(c *completedConfig) (*serverChain, error) {
	var err error
	delegate := genericapiserver.NewEmptyDelegateWithCustomHandler(notfoundhandler.New(c.codecs, filters.NoMuxAndDiscoveryIncompleteKey))

	// 1. Custom resources
	var customResources *apiextensionsapiserver.CustomResourceDefinitions
	if !c.options.DisableCustomResources {
		if customResources, err = c.customResources.New(delegate); err != nil {
			return nil, fmt.Errorf("create the server of custom resources: %w", err)
		}
		delegate = refuseProtobuf(customResources, c.codecs)
		if err = signalDefinitionsSynced(customResources); err != nil {
			delegate.Destroy()
			return nil, err
		}
	}

	// 2. Built-in resources
	builtIn, err := c.native.New(Name, delegate)
	if err != nil {
		delegate.Destroy()
		return nil, fmt.Errorf("create the server of built-in resources: %w", err)
	}
	if err = c.installBuiltIn(builtIn); err != nil {
		builtIn.Destroy()
		return nil, err
	}

	// 3. Aggregator of APIServices, discovery and OpenAPI
	var front *aggregator.Aggregator
	if !c.options.DisableAggregator {
		if front, err = aggregator.New(c.aggregator, builtIn); err != nil {
			builtIn.Destroy()
			return nil, fmt.Errorf("create the aggregator: %w", err)
		}
	}
	chain := &serverChain{aggregator: front, native: builtIn, customResources: customResources}
	chain.front().ShutdownTimeout = genericserver.DrainTimeout
	return chain, nil
}

// front returns the server that requests reach first.
func (c *serverChain) front() *genericapiserver.GenericAPIServer {
	if c.aggregator != nil {
		return c.aggregator.GenericAPIServer
	}
	return c.native
}

// preparedServer serves until the context ends.
type preparedServer interface {
	Run(ctx context.Context) error
}

// prepareRun installs health checks and OpenAPI.
func (c *serverChain) prepareRun() (preparedServer, error) {
	if c.aggregator == nil {
		return withoutAggregator{c.native.PrepareRun()}, nil
	}
	prepared, err := c.aggregator.PrepareRun()
	if err != nil {
		return nil, fmt.Errorf("prepare the aggregator: %w", err)
	}
	return prepared, nil
}

// withoutAggregator is the server of built-in resources as a preparedServer.
type withoutAggregator struct {
	prepared interface {
		RunWithContext(ctx context.Context) error
	}
}

// Run implements preparedServer.
func (w withoutAggregator) Run(ctx context.Context) error { return w.prepared.RunWithContext(ctx) }

// installBuiltIn adds the built-in resources, the issuer of tokens and OpenAPI to their server.
func (c *completedConfig) installBuiltIn(server *genericapiserver.GenericAPIServer) error {
	if err := c.options.kinds.Install(server, c.scheme, c.codecs, c.native.RESTOptionsGetter, native.Dependencies{
		Tokens: c.native.Authentication.Authenticator, Audiences: c.native.Authentication.APIAudiences,
		Access: c.native.Authorization.Authorizer, Rules: c.native.RuleResolver,
		Mapper: c.admission.chain.Mapper(), ServiceAccounts: c.authentication.tokens.Registry(), EventTTL: c.options.EventTTL,
	}); err != nil {
		return err
	}
	c.serveIssuer(server)
	c.orderDiscovery()
	return c.publisher.Install(server)
}

// releaseOpenAPI frees the definitions that no server needs after all are prepared.
func (c *completedConfig) releaseOpenAPI() { openapi.Release(c.native.Config) }
