// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package remoteopenapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const (
	// freshFor is how long a server's list is used without asking again.
	freshFor = time.Second
	// patience is how long users wait for a server's list, and only for one that answered when it was asked last.
	patience = 300 * time.Millisecond
	// askingFor is how long a server may take. What it says after users' patience is for those who come later.
	askingFor = 5 * time.Second
	// failureFor is how long a server that has not answered is not asked again.
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
	urls map[string]string
	// asked is when the last question was sent, and asking is closed with its end; nil if there is none.
	asked  time.Time
	asking chan struct{}
	// failed is when the server has not answered; zero if it has.
	failed time.Time
}

// read returns the URLs of the server's documents by name, asked for within the given time if the server answers, and nil if it
// never has. Of users at the same time one asks, and nobody waits for a server that did not answer when it was asked last.
func (d *Documents) read(ctx context.Context, r *root, service *apiregistrationv1.APIService, age time.Duration) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	failing := !r.failed.IsZero()
	if failing && time.Since(r.failed) < failureFor || r.urls != nil && time.Since(r.asked) < age {
		return r.urls
	}
	if r.asking == nil {
		// What was asked before the question was sent may be older than the answer.
		r.asked, r.asking = time.Now(), make(chan struct{})
		d.running.Go(func() { d.ask(klog.FromContext(ctx), r, service) }) //nolint:contextcheck // it is for others, too
	}
	asking, left := r.asking, patience-time.Since(r.asked)
	if failing || left <= 0 {
		return r.urls
	}
	r.mu.Unlock()
	timer := time.NewTimer(left)
	select {
	case <-asking:
	case <-timer.C:
	case <-ctx.Done():
	}
	timer.Stop()
	r.mu.Lock()
	return r.urls
}

// ask asks the server for its list.
func (d *Documents) ask(logger klog.Logger, r *root, service *apiregistrationv1.APIService) {
	ctx, cancel := context.WithTimeout(d.ctx, askingFor)
	defer cancel()
	urls, err := list(ctx, d.servers, service)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.asking)
	r.asking, r.failed = nil, time.Time{}
	if err != nil {
		logger.V(2).Info("Reading the list of OpenAPI documents", "apiService", service.Name, "reason", err.Error())
		r.failed = time.Now()
		return
	}
	r.urls = urls
}

func list(ctx context.Context, servers remoteservers.Servers, service *apiregistrationv1.APIService) (map[string]string, error) {
	answer, err := servers.Ask(ctx, service, remoteservers.Question{Path: rootPath, User: asker, Limit: maxRoot})
	if err != nil {
		return nil, err
	}
	if answer.Status != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s with status %d", rootPath, answer.Status)
	}
	documents := handler3.OpenAPIV3Discovery{}
	if err := json.Unmarshal(answer.Body, &documents); err != nil {
		return nil, fmt.Errorf("read the list: %w", err)
	}
	urls := make(map[string]string, len(documents.Paths))
	for name, entry := range documents.Paths {
		urls[name] = entry.ServerRelativeURL
	}
	return urls, nil
}
