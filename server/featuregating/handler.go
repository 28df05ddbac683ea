// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apidiscovery "k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/responsewriter"

	"github.com/kube-annex/annex/registry/resource"
)

// WithGatedResources answers 404 for resources whose features are off, and removes them from discovery. It comes after authorization.
func (g *Gating) WithGatedResources(next http.Handler, serializer runtime.NegotiatedSerializer) http.Handler {
	if len(g.gates) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		switch {
		case !ok:
			next.ServeHTTP(w, req)
		case info.IsResourceRequest:
			g.serveResource(next, serializer, w, req, info)
		default:
			g.serveDiscovery(next, serializer, w, req)
		}
	})
}

func (g *Gating) serveResource(next http.Handler, serializer runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request, info *request.RequestInfo) {
	gvr := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	gate, gated := g.gates[gvr]
	if !gated {
		next.ServeHTTP(w, req)
		return
	}
	gone, served := g.presence(gate)
	if !served {
		responsewriters.ErrorNegotiated(resource.NotServed(gvr.GroupResource(), req.Method), serializer, gvr.GroupVersion(), w, req)
		return
	}
	if info.Verb == "watch" {
		ctx, end := context.WithCancel(req.Context())
		defer end()
		go func() {
			select {
			case <-gone:
				end()
			case <-ctx.Done():
			}
		}()
		req = req.WithContext(ctx)
	}
	next.ServeHTTP(w, req)
}

// serveDiscovery answers /apis/<group>/<version> where something of it is hidden.
func (g *Gating) serveDiscovery(next http.Handler, serializer runtime.NegotiatedSerializer, w http.ResponseWriter, req *http.Request) {
	version, ok := g.discovered(req)
	if !ok {
		next.ServeHTTP(w, req)
		return
	}
	whole := req.Clone(req.Context())
	whole.Header.Set("Accept", runtime.ContentTypeJSON)
	whole.Header.Del("Accept-Encoding")
	answer := responsewriter.NewInMemoryResponseWriter()
	next.ServeHTTP(answer, whole)
	list := &metav1.APIResourceList{}
	if answer.RespCode() != http.StatusOK || json.Unmarshal(answer.Data(), list) != nil {
		next.ServeHTTP(w, req)
		return
	}
	shown := slices.DeleteFunc(list.APIResources, func(one metav1.APIResource) bool {
		name, _, _ := strings.Cut(one.Name, "/")
		return g.hidden(version.WithResource(name))
	})
	apidiscovery.NewAPIVersionHandler(serializer, version, apidiscovery.APIResourceListerFunc(func() []metav1.APIResource { return shown })).ServeHTTP(w, req)
}

// discovered returns the group-version that a request asks about, and whether it has a gated resource.
func (g *Gating) discovered(req *http.Request) (schema.GroupVersion, bool) {
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if req.Method != http.MethodGet || len(parts) != 3 || parts[0] != "apis" {
		return schema.GroupVersion{}, false
	}
	version := schema.GroupVersion{Group: parts[1], Version: parts[2]}
	for gvr := range g.gates {
		if gvr.GroupVersion() == version && g.hidden(gvr) {
			return version, true
		}
	}
	return version, false
}
