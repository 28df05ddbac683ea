// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remoteopenapi makes a control plane publish the OpenAPI v3 of the servers behind remote APIServices as those do.
//
// Kubernetes' aggregator reads the list of a server's documents, with the hash of each, a second after the APIService was made and then
// every minute, and nothing makes it do so earlier. Until then kubectl explain knows nothing of a new kind, or shows how it was. Here the
// servers are asked for their lists, at most once a second, when somebody asks for that of all, and requests for documents are passed on to
// the server that has them. A server that is slow is waited for once and for a moment.
//
// A server that has never answered, or has no OpenAPI v3, is left to the rest of the aggregator, which converts v2.
package remoteopenapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const rootPath = "/openapi/v3"

// Documents serves the documents of remote servers.
type Documents struct {
	servers remoteservers.Servers
	lister  listers.APIServiceLister
	// ctx is for questions, which others than who has them asked may wait for; running are those under way.
	ctx     context.Context //nolint:containedctx // see above
	stop    context.CancelFunc
	running sync.WaitGroup

	mu    sync.Mutex
	roots map[string]*root
}

// New returns the documents of the servers behind the APIServices of the lister.
func New(servers remoteservers.Servers, lister listers.APIServiceLister) *Documents {
	ctx, stop := context.WithCancel(context.Background())
	return &Documents{servers: servers, lister: lister, ctx: ctx, stop: stop, roots: map[string]*root{}}
}

// Stop ends questions to servers, and returns when they have ended.
func (d *Documents) Stop() {
	d.stop()
	d.running.Wait()
}

// ServeList serves a list of documents by their names, such as apis/apps/v1.
func ServeList(w http.ResponseWriter, r *http.Request, documents map[string]handler3.OpenAPIV3DiscoveryGroupVersion) {
	body, err := json.Marshal(handler3.OpenAPIV3Discovery{Paths: documents})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Etag", strconv.Quote(fmt.Sprintf("%X", sha256.Sum256(body))))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// Serve serves the document of a name if a remote server has it, and returns whether it has. The user has to be known and authorized.
func (d *Documents) Serve(w http.ResponseWriter, r *http.Request, document string) bool {
	service := d.serviceOf(r.Context(), document)
	if service == nil {
		return false
	}
	d.proxy(w, r, service)
	return true
}

// Overlay puts the documents of remote servers into a list, in place of what it has of those. All servers are asked at once.
func (d *Documents) Overlay(ctx context.Context, paths map[string]handler3.OpenAPIV3DiscoveryGroupVersion) {
	services, err := d.lister.List(labels.Everything())
	if err != nil {
		klog.FromContext(ctx).Error(err, "Listing APIServices")
		return
	}
	var asking sync.WaitGroup
	found := make([]map[string]string, len(services))
	used := map[string]bool{}
	for i, service := range services {
		if !isRemote(service) {
			continue
		}
		used[remoteservers.Of(service)] = true
		asking.Go(func() { found[i] = d.read(ctx, d.rootOf(service), service, freshFor) })
	}
	asking.Wait()
	for i, service := range services {
		if found[i] == nil {
			continue
		}
		// The server may have more, which it does not serve here.
		if url, ok := found[i][documentOf(service)]; ok {
			paths[documentOf(service)] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: url}
		} else {
			delete(paths, documentOf(service))
		}
		ofGroup := "apis/" + service.Spec.Group
		if url, ok := found[i][ofGroup]; ok && keeperOf(service.Spec.Group, services) == service {
			paths[ofGroup] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: url}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.roots, func(server string, _ *root) bool { return !used[server] })
}

// serviceOf returns the remote APIService whose server has the document, if there is one.
func (d *Documents) serviceOf(ctx context.Context, document string) *apiregistrationv1.APIService {
	service := d.named(document)
	if service == nil || !isRemote(service) {
		return nil
	}
	if _, ok := d.read(ctx, d.rootOf(service), service, forever)[document]; !ok {
		return nil
	}
	return service
}

// named returns the APIService that a document is about: apis/GROUP/VERSION, or apis/GROUP, which is discovery of the group.
func (d *Documents) named(document string) *apiregistrationv1.APIService {
	parts := strings.Split(document, "/")
	if parts[0] != "apis" || len(parts) < 2 || len(parts) > 3 {
		return nil
	}
	if len(parts) == 3 {
		service, err := d.lister.Get(parts[2] + "." + parts[1])
		if err != nil {
			return nil
		}
		return service
	}
	services, err := d.lister.List(labels.Everything())
	if err != nil {
		return nil
	}
	return keeperOf(parts[1], services)
}

// keeperOf returns the APIService whose server tells of the group as a whole: the first by name, and none if a version is our own.
func keeperOf(group string, services []*apiregistrationv1.APIService) (keeper *apiregistrationv1.APIService) {
	for _, service := range services {
		switch {
		case service.Spec.Group != group:
		case service.Spec.Service == nil:
			return nil
		case isRemote(service) && (keeper == nil || service.Name < keeper.Name):
			keeper = service
		}
	}
	return keeper
}

func (d *Documents) rootOf(service *apiregistrationv1.APIService) *root {
	d.mu.Lock()
	defer d.mu.Unlock()
	server := remoteservers.Of(service)
	if d.roots[server] == nil {
		d.roots[server] = &root{}
	}
	return d.roots[server]
}

// isRemote tells whether the aggregator passes requests on to a server.
func isRemote(service *apiregistrationv1.APIService) bool {
	return service.Spec.Service != nil && helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available)
}

func documentOf(service *apiregistrationv1.APIService) string {
	return "apis/" + service.Spec.Group + "/" + service.Spec.Version
}
