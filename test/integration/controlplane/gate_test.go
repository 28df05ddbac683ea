// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var errCut = errors.New("the connection was cut by the test")

// gate is passed by all requests of a controller, so that a test can act before one of them.
type gate struct {
	next http.RoundTripper

	mu sync.Mutex
	// before acts before the next request that it wants.
	before func(*http.Request) func()
	// cut is the beginning of the paths of requests that fail, and open ends those that are under way.
	cut  string
	open map[*http.Request]context.CancelFunc
	// discoveries counts the times that the groups were asked for.
	discoveries int
}

// throughGate returns a configuration whose requests pass a gate.
func throughGate(config *rest.Config) (*rest.Config, *gate) {
	g := &gate{open: map[*http.Request]context.CancelFunc{}}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		g.next = next
		return g
	})
	return config, g
}

func (g *gate) RoundTrip(request *http.Request) (*http.Response, error) {
	g.mu.Lock()
	var act func()
	if g.before != nil {
		if act = g.before(request); act != nil {
			g.before = nil
		}
	}
	if request.URL.Path == "/apis" {
		g.discoveries++
	}
	g.mu.Unlock()
	if act != nil {
		act()
	}
	ctx, cancel := context.WithCancel(request.Context())
	request = request.WithContext(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut != "" && strings.HasPrefix(request.URL.Path, g.cut) {
		cancel()
		return nil, errCut
	}
	g.open[request] = cancel
	g.mu.Unlock()
	response, err := g.next.RoundTrip(request)
	g.mu.Lock()
	return response, err
}

// hold has the next request with the method for the path, which is not a watch, wait until it is released. The channel is closed when there is one.
func (g *gate) hold(method, path string) (reached <-chan struct{}, release func()) {
	at, on := make(chan struct{}), make(chan struct{})
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = func(request *http.Request) func() {
		if request.Method != method || request.URL.Path != path || request.URL.Query().Has("watch") {
			return nil
		}
		return func() {
			close(at)
			select {
			case <-on:
			case <-request.Context().Done():
			}
		}
	}
	return at, func() { close(on) }
}

// waitReached returns when a request is held.
func waitReached(t *testing.T, reached <-chan struct{}) {
	t.Helper()
	select {
	case <-reached:
	case <-time.After(patience):
		t.Fatal("there was no such request")
	}
}

// fail has all requests fail whose paths begin so, those that are under way included.
func (g *gate) fail(prefix string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = prefix
	for request, cancel := range g.open {
		if strings.HasPrefix(request.URL.Path, prefix) {
			cancel()
		}
	}
}

func (g *gate) asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.discoveries
}

// waitDiscovered returns when kinds were asked for after this was called, and what was found has been dealt with.
func (g *gate) waitDiscovered(t *testing.T, h *host) {
	t.Helper()
	before := g.asked()
	for i := range 2 {
		// An APIService that changes is a reason to ask.
		touch(t, h, "v1.")
		eventually(t, func() error {
			if g.asked() <= before+i {
				return errors.New("the kinds were not asked for")
			}
			return nil
		})
	}
}

// createDefinition defines the kind of example.com with the plural in versions, of which the first is stored, and waits until the last is served.
func createDefinition(t *testing.T, config *rest.Config, plural string, versions ...string) {
	t.Helper()
	keep := true
	definition := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural: plural, Singular: strings.TrimSuffix(plural, "s"), Kind: strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s"),
			},
		},
	}
	definition.Spec.Names.ListKind = definition.Spec.Names.Kind + "List"
	for i, version := range versions {
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
		})
	}
	if _, err := definitions(t, config).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		waitServed(t, config, schema.GroupVersionResource{Group: "example.com", Version: version, Resource: plural}, true)
	}
}

// serve changes whether a version of a kind of example.com is served, and waits until that is so.
func serve(t *testing.T, config *rest.Config, plural, version string, served bool) {
	t.Helper()
	eventually(t, func() error {
		client := definitions(t, config).ApiextensionsV1().CustomResourceDefinitions()
		definition, err := client.Get(t.Context(), plural+".example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range definition.Spec.Versions {
			if definition.Spec.Versions[i].Name == version {
				definition.Spec.Versions[i].Served = served
			}
		}
		_, err = client.Update(t.Context(), definition, metav1.UpdateOptions{})
		return err
	})
	waitServed(t, config, schema.GroupVersionResource{Group: "example.com", Version: version, Resource: plural}, served)
}

// waitServed waits until the objects of a kind can be listed, or there is no such kind.
func waitServed(t *testing.T, config *rest.Config, resource schema.GroupVersionResource, want bool) {
	t.Helper()
	client := anything(t, config).Resource(resource).Namespace("default")
	eventually(t, func() error {
		_, err := client.List(t.Context(), metav1.ListOptions{Limit: 1})
		switch {
		case want:
			return err
		case apierrors.IsNotFound(err):
			return nil
		}
		return fmt.Errorf("the kind is still served: %w", err)
	})
}
