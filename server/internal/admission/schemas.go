// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/openapi"
)

// schemasRecheck is the interval of checks for schemas of new group-versions.
const schemasRecheck = time.Second

// withSchemas is a client with the OpenAPI of the server that admits, by which mutating policies are applied. That of a host would be
// a minute behind about an extension.
type withSchemas struct {
	kubernetes.Interface
	schemas openapi.Client
}

// Discovery implements kubernetes.Interface.
func (w withSchemas) Discovery() discovery.DiscoveryInterfaces {
	return discoveryWithSchemas{w.Interface.Discovery(), w.schemas}
}

type discoveryWithSchemas struct {
	discovery.DiscoveryInterfaces
	schemas openapi.Client
}

// OpenAPIV3 implements discovery.OpenAPIV3SchemaInterface.
func (d discoveryWithSchemas) OpenAPIV3() openapi.Client { return d.schemas }

// OpenAPIV3WithContext implements discovery.OpenAPIV3SchemaInterfaceWithContext.
func (d discoveryWithSchemas) OpenAPIV3WithContext(context.Context) openapi.ClientWithContext {
	return openapi.ToClientWithContext(d.schemas)
}

// schemaClient records the schemas that the library has read. The library reads every 5 s, and until then rejects mutations of newer kinds,
// such as custom resources that have just been defined.
type schemaClient struct {
	openapi.Client
	// known is closed when the library knows for the first time which schemas there are.
	synced chan struct{}

	mu    sync.Mutex
	paths sets.Set[string]
}

func newSchemaClient(client openapi.Client) *schemaClient {
	return &schemaClient{Client: client, synced: make(chan struct{})}
}

// Paths implements openapi.Client.
func (a *schemaClient) Paths() (map[string]openapi.GroupVersion, error) {
	paths, err := a.Client.Paths()
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paths == nil {
		close(a.synced)
	}
	a.paths = sets.KeySet(paths)
	return paths, nil
}

// waitOutdated returns when the server has a group-version whose schemas the library has not read, or when the context ends.
func (a *schemaClient) waitOutdated(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(schemasRecheck):
		}
		paths, err := a.Client.Paths()
		if err != nil {
			continue // the server stops, or says so in its own log
		}
		a.mu.Lock()
		outdated := a.paths != nil && !a.paths.IsSuperset(sets.KeySet(paths))
		a.mu.Unlock()
		if outdated {
			return
		}
	}
}
