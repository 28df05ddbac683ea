// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"weak"

	restful "github.com/emicklei/go-restful/v3"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/kube-annex/annex/apis/gatedfield"
	"github.com/kube-annex/annex/server/featuregating/gates"
)

// Publisher publishes a server's OpenAPI v2 and v3 without what is not permitted. Its methods may be called at any time, from
// any goroutine.
type Publisher struct {
	gated gates.Gated
	v2    *common.Config
	v3    *common.OpenAPIV3Config

	// building is held while a document is built and encoded.
	building sync.Mutex
	// definitions are those of v3 as long as several documents are built one after the other.
	definitions weak.Pointer[definitions]

	mu        sync.Mutex
	permitted sets.Set[string]
	documents []*published
	followers []func([]schema.GroupVersion)
}

// NewPublisher returns a publisher that begins with what is permitted now. It publishes nothing before it is installed.
func NewPublisher(gated gates.Gated, permitted func(gate string) bool) *Publisher {
	p := &Publisher{gated: gated}
	p.permitted = p.ask(permitted)
	return p
}

// ApplyTo makes the publisher that of the server that the configuration is for. It comes after the OpenAPI is configured, and
// before the configuration is completed.
func (p *Publisher) ApplyTo(config *genericapiserver.Config) {
	config.SkipOpenAPIInstallation = true
	p.v2, p.v3 = config.OpenAPIConfig, config.OpenAPIV3Config
}

// Install publishes what the server serves. It comes after all API groups have been installed, and before PrepareRun. It fails
// where a gated field or resource is not what the server has, because it would be published always.
func (p *Publisher) Install(server *genericapiserver.GenericAPIServer) error {
	services := server.Handler.GoRestfulContainer.RegisteredWebServices()
	var documents []*published
	if p.v2 != nil {
		documents = append(documents, p.installV2(server, services))
	}
	if p.v3 != nil {
		versions, err := p.installV3(server, services)
		if err != nil {
			return err
		}
		documents = append(documents, versions...)
	}
	if err := p.check(documents); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.documents = documents
	for _, document := range documents {
		document.show(p.permitted)
	}
	return nil
}

func (p *Publisher) installV2(server *genericapiserver.GenericAPIServer, services []*restful.WebService) *published {
	shown := &published{gated: p.gated, protobuf: handler.ToProtoBinary, building: &p.building, build: func() (*gates.Document, error) {
		master, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services), p.v2)
		if err != nil {
			return nil, fmt.Errorf("build OpenAPI v2: %w", err)
		}
		master.Definitions = handler.PruneDefaults(master.Definitions)
		return gates.NewDocumentV2(master, p.gated), nil
	}}
	server.Handler.NonGoRestfulMux.Handle("/openapi/v2", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown.serve(w, r, acceptedV2)
	}))
	return shown
}

func (p *Publisher) installV3(server *genericapiserver.GenericAPIServer, services []*restful.WebService) ([]*published, error) {
	var documents []*published
	for _, web := range services {
		shown := &published{name: strings.TrimPrefix(web.RootPath(), "/"), protobuf: handler3.ToV3ProtoBinary, building: &p.building}
		shown.build = func() (*gates.Document, error) {
			master, err := p.buildV3(web)
			if err != nil {
				return nil, fmt.Errorf("build OpenAPI v3 of %q: %w", shown.name, err)
			}
			return gates.NewDocumentV3(master, p.gated), nil
		}
		if len(p.gated.Gates()) > 0 {
			p.building.Lock()
			built, err := shown.build()
			p.building.Unlock()
			if err != nil {
				return nil, err
			}
			shown.gated = built.Gated
		}
		documents = append(documents, shown)
	}
	serveV3(server.Handler.NonGoRestfulMux, documents)
	return documents, nil
}

// buildV3 has the generic apiserver build the document of one path, and takes it before it is published: what is published
// cannot be read back.
func (p *Publisher) buildV3(web *restful.WebService) (*spec3.OpenAPI, error) {
	config := p.v3
	taking := *config
	taking.Definitions = p.definitionsV3()
	var taken *spec3.OpenAPI
	taking.PostProcessSpec = func(built *spec3.OpenAPI) (_ *spec3.OpenAPI, err error) {
		if config.PostProcessSpec != nil {
			if built, err = config.PostProcessSpec(built); err != nil {
				return nil, err
			}
		}
		taken = built
		return built, nil
	}
	container := restful.NewContainer()
	container.Add(web)
	routes.OpenAPI{V3Config: &taking}.InstallV3(container, mux.NewPathRecorderMux("discarded"))
	if taken == nil {
		return nil, errors.New("the log has the reason")
	}
	return taken, nil
}

// check finds out what is gated and cannot be hidden.
func (p *Publisher) check(documents []*published) error {
	var errs []error
	for _, field := range p.gated.Fields {
		name := documentName(field.Kind.GroupVersion())
		i := slices.IndexFunc(documents, func(d *published) bool { return d.name == name })
		// Groups that are not served have no document.
		if i >= 0 && !slices.ContainsFunc(documents[i].gated.Fields, func(had gatedfield.Field) bool { return had.Model == field.Model && had.Property == field.Property }) {
			errs = append(errs, fmt.Errorf("the field %s of %s is gated by %s, but the OpenAPI of %s has no model %s with a property %s",
				strings.Join(field.Path, "."), field.Kind.Kind, field.Gate, field.Kind.GroupVersion(), field.Model, field.Property))
		}
	}
	for _, resource := range p.gated.Resources {
		name := documentName(resource.GroupVersion())
		i := slices.IndexFunc(documents, func(d *published) bool { return d.name == name })
		if i >= 0 && !slices.Contains(documents[i].gated.Resources, resource) {
			errs = append(errs, fmt.Errorf("%s is gated by %s, but %s does not serve it", resource.Resource, resource.Gate, resource.GroupVersion()))
		}
	}
	return errors.Join(errs...)
}

// Publish publishes the documents that change because of what is permitted now, at once, and returns the versions whose
// documents they are. The function is asked about each gate once.
func (p *Publisher) Publish(permitted func(gate string) bool) []schema.GroupVersion {
	p.mu.Lock()
	defer p.mu.Unlock()
	// It is asked here so that of calls at the same time the one that was answered last counts.
	p.permitted = p.ask(permitted)
	var changed []schema.GroupVersion
	for _, document := range p.documents {
		if version, ok := versionOf(document.name); document.show(p.permitted) && ok {
			changed = append(changed, version)
		}
	}
	if len(changed) > 0 {
		for _, follow := range p.followers {
			follow(changed)
		}
	}
	return changed
}

// OnChange adds a function that is called with the versions whose documents have changed. It must not block.
func (p *Publisher) OnChange(follow func([]schema.GroupVersion)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.followers = append(p.followers, follow)
}

func (p *Publisher) ask(permitted func(gate string) bool) sets.Set[string] {
	names := sets.New[string]()
	for _, gate := range p.gated.Gates() {
		if permitted(gate) {
			names.Insert(gate)
		}
	}
	return names
}

func documentName(version schema.GroupVersion) string {
	if version.Group == "" {
		return "api/" + version.Version
	}
	return "apis/" + version.Group + "/" + version.Version
}

func versionOf(document string) (schema.GroupVersion, bool) {
	parts := strings.Split(document, "/")
	switch {
	case len(parts) == 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}, true
	case len(parts) == 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, true
	}
	return schema.GroupVersion{}, false
}
