// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	openapiaggregator "k8s.io/kube-aggregator/pkg/controllers/openapi/aggregator"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/util/proto"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// partOf returns what of a server's document is about an APIService. It is an error if clients would refuse any document with that in it.
func partOf(whole []byte, service *apiregistrationv1.APIService) (*spec.Swagger, error) {
	if len(whole) == 0 {
		return nil, nil
	}
	var part *spec.Swagger
	err := safely(func() error {
		swagger := &spec.Swagger{}
		if err := swagger.UnmarshalJSON(whole); err != nil {
			return fmt.Errorf("parse it: %w", err)
		}
		if swagger.Paths == nil {
			return errors.New("it has no paths")
		}
		_, prefix := pathsOf(service.Name)
		part = aggregator.FilterSpecByPathsWithoutSideEffects(swagger, []string{prefix + "/"})
		encoded, err := part.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encode it: %w", err)
		}
		// This is how kubectl gets and reads the merged document.
		parsed, err := openapi_v2.ParseDocument(encoded)
		if err != nil {
			return fmt.Errorf("encode it for clients: %w", err)
		}
		if _, err = proto.NewOpenAPIData(parsed); err != nil {
			return fmt.Errorf("read it as clients do: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return part, nil
}

// safely makes an error of a panic: documents come from servers that may be anybody's, and the libraries are not made for all that can be
// in one.
func safely(do func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("it makes the library panic: %v", reason)
		}
	}()
	return do()
}

// localDocuments are those of the servers in this process, this one first.
func (a *Aggregator) localDocuments() ([]cached.Value[*spec.Swagger], error) {
	own, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(a.GenericAPIServer.Handler.GoRestfulContainer.RegisteredWebServices()), a.openAPI)
	if err != nil {
		return nil, fmt.Errorf("describe APIServices: %w", err)
	}
	own.Definitions = handler.PruneDefaults(own.Definitions)
	documents := []cached.Value[*spec.Swagger]{cached.Static(own, "own")}
	downloader := openapiaggregator.NewDownloader()
	for i, server := range a.locals() {
		// A downloader is not to be used twice at a time, as two lists would do.
		documents = append(documents, cached.Transform(func(swagger *spec.Swagger, etag string, err error) (*spec.Swagger, string, error) {
			return swagger, etag, err
		}, cached.Value[*spec.Swagger](openapiaggregator.NewCacheableDownloader(fmt.Sprintf("local server %d", i), &downloader, server))))
	}
	return documents, nil
}

// locals are the handlers of the servers behind this one.
func (a *Aggregator) locals() []http.Handler {
	var found []http.Handler
	for server := a.delegate; server != nil; server = server.NextDelegate() {
		// The last one has nothing, and says so with an error while it starts.
		if handler := server.UnprotectedHandler(); handler != nil && (server.NextDelegate() != nil || len(server.ListedPaths()) > 0) {
			found = append(found, handler)
		}
	}
	return found
}

// installV2 serves the documents of all servers as one.
func (a *Aggregator) installV2() error {
	locals, err := a.localDocuments()
	if err != nil {
		return err
	}
	all := a.followers.documents
	all.mu.Lock()
	defer all.mu.Unlock()
	service := handler.NewOpenAPIServiceLazy(all.mergedWith(locals))
	all.changed = func() { service.UpdateSpecLazy(all.mergedWith(locals)) }
	service.RegisterOpenAPIVersionedService("/openapi/v2", a.GenericAPIServer.Handler.NonGoRestfulMux)
	return nil
}

// mergedWith is all documents as one. What cannot be merged is left out. It is called with the lock.
func (d *documents) mergedWith(locals []cached.Value[*spec.Swagger]) cached.Value[*spec.Swagger] {
	remotes := d.parts()
	values := append([]cached.Value[*spec.Swagger]{}, locals...)
	for _, remote := range remotes {
		values = append(values, remote.part)
	}
	return cached.MergeList(func(results []cached.Result[*spec.Swagger]) (*spec.Swagger, string, error) {
		var sum *spec.Swagger
		var etags []string
		for i, result := range results {
			name := "local"
			if i >= len(locals) {
				name = remotes[i-len(locals)].name
			}
			if result.Err != nil {
				d.leftOut(name, result.Err)
				continue
			}
			etags = append(etags, result.Etag)
			if result.Value == nil {
				continue
			}
			with, err := add(sum, result.Value)
			if err != nil {
				d.leftOut(name, err)
				continue
			}
			sum = with
		}
		return sum, fmt.Sprintf("%X", sha256.Sum256([]byte(strings.Join(etags, "\n")))), nil
	}, values)
}

// add returns the sum with a document in it. The sum itself stays as it is, so that it is still good if that fails.
func add(sum, document *spec.Swagger) (*spec.Swagger, error) {
	with := &spec.Swagger{}
	if sum == nil {
		*with = *document
		with.Paths, with.Definitions, with.Parameters = nil, nil, nil
	} else {
		*with = *sum
		paths := *sum.Paths
		paths.Paths = maps.Clone(sum.Paths.Paths)
		with.Paths, with.Definitions, with.Parameters = &paths, maps.Clone(sum.Definitions), maps.Clone(sum.Parameters)
	}
	for name := range document.Definitions {
		if shared, ok := with.Definitions[name]; ok {
			// The library would write into what it belongs to.
			shared.Extensions = maps.Clone(shared.Extensions)
			if shared.Extensions == nil {
				shared.Extensions = spec.Extensions{}
			}
			with.Definitions[name] = shared
		}
	}
	err := safely(func() error {
		return aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(with, document)
	})
	if err != nil {
		return nil, err
	}
	if with.Paths == nil {
		with.Paths = &spec.Paths{}
	}
	return with, nil
}
