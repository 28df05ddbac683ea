// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/mux"
	serverroutes "k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/util/responsewriter"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/spec3"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteopenapi"
)

const v3Path = "/openapi/v3"

// installOpenAPI serves the documents of all.
func (a *Aggregator) installOpenAPI() error {
	if a.openAPIV3 != nil {
		a.installV3()
	}
	if a.openAPI == nil {
		return nil
	}
	return a.installV2()
}

// v3 serves the documents of the servers of this process and of remote servers, each by itself, and those of servers that have only v2,
// converted.
type v3 struct {
	locals    []http.Handler
	remote    *remoteopenapi.Documents
	converted *documents
}

func (a *Aggregator) installV3() {
	own := mux.NewPathRecorderMux("apiservices")
	serverroutes.OpenAPI{V3Config: a.openAPIV3}.InstallV3(a.GenericAPIServer.Handler.GoRestfulContainer, own)
	documents := &v3{locals: append([]http.Handler{own}, a.locals()...), remote: a.remote, converted: a.followers.documents}
	handle := a.GenericAPIServer.Handler.NonGoRestfulMux
	handle.Handle(v3Path, metrics.InstrumentHandlerFunc(http.MethodGet, "", "", "", "openapi/v3", "", "", false, "", documents.serveRoot))
	handle.HandlePrefix(v3Path+"/", metrics.InstrumentHandlerFunc(http.MethodGet, "", "", "", "openapi/v3/", "", "", false, "", documents.serveDocument))
}

// rootOf returns the list of a local server's documents.
func rootOf(ctx context.Context, server http.Handler) map[string]handler3.OpenAPIV3DiscoveryGroupVersion {
	ctx = request.WithUser(ctx, &user.DefaultInfo{Name: "system:aggregator"})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v3Path, nil)
	if err != nil {
		return nil
	}
	answer := responsewriter.NewInMemoryResponseWriter()
	server.ServeHTTP(answer, r)
	list := handler3.OpenAPIV3Discovery{}
	if answer.RespCode() != http.StatusOK || json.Unmarshal(answer.Data(), &list) != nil {
		return nil
	}
	return list.Paths
}

func (v *v3) serveRoot(w http.ResponseWriter, r *http.Request) {
	merged := map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}
	for _, server := range v.locals {
		for name, entry := range rootOf(r.Context(), server) {
			// Requests reach the servers in this order, too.
			if _, ok := merged[name]; !ok {
				merged[name] = entry
			}
		}
	}
	for name, hash := range v.converted.hashes() {
		if _, ok := merged[name]; !ok {
			merged[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: v3Path + "/" + name + "?hash=" + url.QueryEscape(hash)}
		}
	}
	v.remote.Overlay(r.Context(), merged)
	remoteopenapi.ServeList(w, r, merged)
}

func (v *v3) serveDocument(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, v3Path+"/")
	if v.remote.Serve(w, r, name) {
		return
	}
	for _, server := range v.locals {
		if _, ok := rootOf(r.Context(), server)[name]; ok {
			server.ServeHTTP(w, r)
			return
		}
	}
	v.converted.serveConverted(w, r, name)
}

// nameInV3 is that of an APIService's document.
func nameInV3(service string) string {
	_, path := pathsOf(service)
	return strings.TrimPrefix(path, "/")
}

// hashes returns those of documents that can be converted, by their names in v3.
func (d *documents) hashes() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[string]string{}
	for service, one := range d.byService {
		if _, etag, _ := one.whole.Get(); etag != "" {
			found[nameInV3(service)] = etag
		}
	}
	return found
}

// serveConverted serves what becomes of a v2 document in v3. It loses some of what v3 could say, as with Kubernetes' aggregator.
func (d *documents) serveConverted(w http.ResponseWriter, r *http.Request, name string) {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		http.NotFound(w, r)
		return
	}
	part, etag := d.get(parts[2] + "." + parts[1])
	if etag == "" || part() == nil {
		http.NotFound(w, r)
		return
	}
	converted := handler3.NewOpenAPIService()
	converted.UpdateGroupVersionLazy(name, cached.Func(func() (document *spec3.OpenAPI, _ string, _ error) {
		err := safely(func() error {
			if document = openapiconv.ConvertV2ToV3(part()); document == nil {
				return errors.New("nothing is left of it")
			}
			return nil
		})
		return document, etag, err
	}))
	// Whatever hash it is asked by, it is what there is now.
	r = r.Clone(r.Context())
	r.URL.RawQuery = ""
	converted.HandleGroupVersion(w, r)
}
