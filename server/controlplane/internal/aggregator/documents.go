// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const (
	// documentPatience is how long a server may take for its document, and maxDocument how long that may be.
	documentPatience = 30 * time.Second
	maxDocument      = 32 << 20
)

// documents are the OpenAPI v2 documents of remote servers. They are kept as they came, and parsed when somebody asks.
type documents struct {
	mu        sync.Mutex
	byService map[string]*document
	// changed is called when there are others, or in another order.
	changed func()
	// logger is told what is left out.
	logger atomic.Pointer[klog.Logger]
}

// document is what of a server's document belongs to one APIService.
type document struct {
	name    string
	service *apiregistrationv1.APIService
	whole   cached.Atomic[[]byte]
	// part is nil where nothing can be used.
	part cached.Value[*spec.Swagger]
}

func newDocuments() *documents {
	return &documents{byService: map[string]*document{}, changed: func() {}}
}

func (d *documents) leftOut(name string, err error) {
	if logger := d.logger.Load(); logger != nil {
		logger.Error(err, "What an APIService's server has is left out of OpenAPI v2", "apiService", name)
	}
}

func (d *documents) newDocument(service *apiregistrationv1.APIService) *document {
	one := &document{name: service.Name, service: service}
	one.whole.Store(cached.Static[[]byte](nil, ""))
	var last *spec.Swagger
	one.part = cached.Transform(func(whole []byte, etag string, _ error) (*spec.Swagger, string, error) {
		if part, err := partOf(whole, service); err == nil {
			last = part
		} else {
			d.leftOut(service.Name, err)
		}
		return last, etag, nil
	}, cached.Value[[]byte](&one.whole))
	return one
}

// add has the APIService take part. If it is new, what it has is not known yet.
func (d *documents) add(service *apiregistrationv1.APIService) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.byService[service.Name]
	if known == nil {
		d.byService[service.Name] = d.newDocument(service)
		d.changed()
		return
	}
	if before := known.service.Spec; before.GroupPriorityMinimum != service.Spec.GroupPriorityMinimum || before.VersionPriority != service.Spec.VersionPriority {
		known.service = service
		d.changed()
	}
}

func (d *documents) remove(service *apiregistrationv1.APIService) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byService, service.Name)
	d.changed()
}

// set takes a document for an APIService that takes part.
func (d *documents) set(name string, whole []byte, etag string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.byService[name]; known != nil {
		known.whole.Store(cached.Static(whole, etag))
	}
}

// get returns the part of an APIService and the hash of the document that it is of; both are empty where there is none.
func (d *documents) get(name string) (part func() *spec.Swagger, etag string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.byService[name]
	if known == nil {
		return nil, ""
	}
	_, etag, _ = known.whole.Get()
	return func() *spec.Swagger {
		part, _, _ := known.part.Get() // it returns no errors
		return part
	}, etag
}

// lack tells whether one of the APIServices has no document.
func (d *documents) lack(services []*apiregistrationv1.APIService) bool {
	return slices.ContainsFunc(services, func(service *apiregistrationv1.APIService) bool {
		_, etag := d.get(service.Name)
		return etag == ""
	})
}

// parts returns all in the order of their APIServices. It is called with the lock.
func (d *documents) parts() []*document {
	all := make([]*document, 0, len(d.byService))
	for _, one := range d.byService {
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *document) int {
		one, other := a.service.Spec, b.service.Spec
		if one.GroupPriorityMinimum != other.GroupPriorityMinimum {
			return int(other.GroupPriorityMinimum - one.GroupPriorityMinimum)
		}
		if one.Group == other.Group && one.VersionPriority != other.VersionPriority {
			return int(other.VersionPriority - one.VersionPriority)
		}
		return strings.Compare(a.service.Name, b.service.Name)
	})
	return all
}

// readDocument asks the server for its document, and gives it to all its APIServices if it is another one.
func (f *follower) readDocument(ctx context.Context, etag *string) error {
	services := f.all.of(f.server)
	if len(services) == 0 {
		return nil
	}
	if f.all.documents.lack(services) {
		*etag = ""
	}
	ctx, cancel := context.WithTimeout(ctx, documentPatience)
	defer cancel()
	answer, err := f.all.servers.Ask(ctx, services[0], remoteservers.Question{
		Path: "/openapi/v2", User: "system:aggregator", Accept: "application/json", Etag: *etag, Limit: maxDocument,
	})
	switch {
	case err != nil:
		return err
	case answer.Status == http.StatusNotModified && *etag != "", answer.Status == http.StatusNotFound:
		return nil
	case answer.Status != http.StatusOK:
		return fmt.Errorf("the server behind %s answers a question for its OpenAPI document with status %d", services[0].Name, answer.Status)
	case !json.Valid(answer.Body):
		return fmt.Errorf("the OpenAPI document of the server behind %s is not JSON", services[0].Name)
	}
	*etag = answer.Header.Get("Etag")
	hash := fmt.Sprintf("%X", sha256.Sum256(answer.Body))
	for _, service := range services {
		f.all.publish(service, f.server, func() { f.all.documents.set(service.Name, answer.Body, hash) })
	}
	return nil
}
