// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package remoteopenapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/transport"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/kube-annex/annex/server/controlplane/controllers/availability"
)

const (
	// freshFor is how long a server's list is used without asking again.
	freshFor = time.Second
	// patience is how long users wait for a server's list.
	patience = time.Second
	// failureFor is how long a server that has not answered is not asked again, so that users do not wait each time.
	failureFor = 5 * time.Second
	// asker is who asks, as in every Kubernetes aggregator.
	asker = "system:aggregator"
	// maxRoot is how long a list may be.
	maxRoot = 1 << 20
	// forever is longer than any server runs.
	forever = time.Duration(1<<63 - 1)
)

// root is the list of one server's documents.
type root struct {
	mu sync.Mutex
	// urls are by name; nil before the first answer.
	urls  map[string]string
	asked time.Time
	wait  time.Duration // how long after asked to wait at least
}

// read returns the URLs of the server's documents by name, asked for within the given time if the server answers, and nil if it
// never has. Of users at the same time one asks.
func (r *root) read(ctx context.Context, servers availability.Servers, service *apiregistrationv1.APIService, age time.Duration) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	since := time.Since(r.asked)
	if !r.asked.IsZero() && (since < r.wait || r.urls != nil && since < age) {
		return r.urls
	}
	// What was asked before the question was sent may be older than the answer.
	r.asked, r.wait = time.Now(), 0
	urls, err := ask(context.WithoutCancel(ctx), servers, service)
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Reading the list of OpenAPI documents", "apiService", service.Name, "reason", err.Error())
		r.wait = time.Since(r.asked) + failureFor
		return r.urls
	}
	r.urls = urls
	return urls
}

func ask(ctx context.Context, servers availability.Servers, service *apiregistrationv1.APIService) (map[string]string, error) {
	target, err := servers.URL(service, rootPath)
	if err != nil {
		return nil, err
	}
	roundTripper, err := servers.Transport(service)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", target.String(), err)
	}
	transport.SetAuthProxyHeaders(request, asker, "", nil, nil)
	response, err := roundTripper.RoundTrip(request)
	if err != nil {
		utilnet.CloseIdleConnectionsFor(roundTripper)
		return nil, fmt.Errorf("ask %s: %w", target.String(), err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRoot))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", target.String(), err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: status %d", target.String(), response.StatusCode)
	}
	list := handler3.OpenAPIV3Discovery{}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read %s: %w", target.String(), err)
	}
	urls := make(map[string]string, len(list.Paths))
	for name, entry := range list.Paths {
		urls[name] = entry.ServerRelativeURL
	}
	return urls, nil
}
