// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/kube-annex/annex/internal/workloop"
	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const (
	// refresh is how often a server is asked again.
	refresh = time.Minute
	// firstRetry is how soon one is asked again that did not answer; it doubles up to refresh. When a server is found available, or
	// says itself that it has changed, it is asked at once.
	firstRetry = time.Second
	// startPatience is for how long a start waits for first answers.
	startPatience = 500 * time.Millisecond
)

// followers keep what servers have in discovery and OpenAPI.
type followers struct {
	servers   remoteservers.Servers
	discovery aggregated.ResourceManager
	documents *documents

	mu sync.Mutex
	// services are the remote APIServices by name.
	services map[string]*apiregistrationv1.APIService
	byServer map[string]*follower
	// start begins the work of a follower; nil before they run.
	start func(*follower)
}

// follower keeps what one server has, for all its APIServices.
type follower struct {
	all    *followers
	server string
	// cancel ends its work, if that has begun.
	cancel context.CancelFunc
	// discovery and documents wake its two halves: documents are long, and discovery does not wait for them.
	discovery, documents chan struct{}
	// first is closed when the server has been asked for discovery once.
	first chan struct{}
}

func newFollowers(servers remoteservers.Servers, discovery aggregated.ResourceManager) *followers {
	return &followers{
		servers: servers, discovery: discovery, documents: newDocuments(),
		services: map[string]*apiregistrationv1.APIService{}, byServer: map[string]*follower{},
	}
}

func versionOf(service *apiregistrationv1.APIService) metav1.GroupVersion {
	return metav1.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}
}

// update takes what an APIService is from now on. A change of any kind has its server asked.
func (f *followers) update(old, service *apiregistrationv1.APIService) {
	if old != nil && old.ResourceVersion == service.ResourceVersion {
		return // the informer repeats what it knows
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.services[service.Name]
	if known != nil && (service.Spec.Service == nil || remoteservers.Of(known) != remoteservers.Of(service)) {
		f.forget(known)
		known = nil
	}
	if service.Spec.Service == nil {
		return
	}
	f.services[service.Name] = service
	f.discovery.SetGroupVersionPriority(versionOf(service), int(service.Spec.GroupPriorityMinimum), int(service.Spec.VersionPriority))
	if known == nil {
		// Whoever looks is to find that there is something, although nobody knows yet what.
		f.discovery.AddGroupVersion(service.Spec.Group, stale(versionOf(service), nil))
	}
	f.documents.add(service)
	server := remoteservers.Of(service)
	one := f.byServer[server]
	if one == nil {
		one = &follower{
			all: f, server: server, discovery: make(chan struct{}, 1), documents: make(chan struct{}, 1), first: make(chan struct{}),
		}
		f.byServer[server] = one
		if f.start != nil {
			f.start(one)
		}
	}
	one.wake()
}

// remove takes an APIService that is no more.
func (f *followers) remove(service *apiregistrationv1.APIService) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.services[service.Name]; known != nil {
		f.forget(known)
	}
}

// forget is called with the lock.
func (f *followers) forget(service *apiregistrationv1.APIService) {
	delete(f.services, service.Name)
	f.discovery.RemoveGroupVersion(versionOf(service))
	f.documents.remove(service)
	server := remoteservers.Of(service)
	for _, other := range f.services {
		if remoteservers.Of(other) == server {
			return
		}
	}
	if one := f.byServer[server]; one != nil && one.cancel != nil {
		one.cancel()
	}
	delete(f.byServer, server)
}

// of returns the APIServices of a server, in order.
func (f *followers) of(server string) []*apiregistrationv1.APIService {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []*apiregistrationv1.APIService
	for _, service := range f.services {
		if remoteservers.Of(service) == server {
			found = append(found, service)
		}
	}
	slices.SortFunc(found, func(a, b *apiregistrationv1.APIService) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// publish calls the function if the APIService has still the server, and keeps both from changing meanwhile.
func (f *followers) publish(service *apiregistrationv1.APIService, server string, do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.services[service.Name]; now != nil && remoteservers.Of(now) == server {
		do()
	}
}

// run follows servers until the context ends.
func (f *followers) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	f.documents.logger.Store(&logger)
	var running sync.WaitGroup
	f.mu.Lock()
	f.start = func(one *follower) {
		following, cancel := context.WithCancel(ctx)
		one.cancel = cancel
		running.Go(func() { one.followDiscovery(following) })
		running.Go(func() { one.followDocuments(following) })
	}
	for _, one := range f.byServer {
		f.start(one)
	}
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	f.start = nil
	f.mu.Unlock()
	running.Wait()
}

// waitForFirst gives servers that were available when this one was last seen a moment to tell what they have.
func (f *followers) waitForFirst(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	f.mu.Lock()
	var waiting []*follower
	for _, service := range f.services {
		if helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
			waiting = append(waiting, f.byServer[remoteservers.Of(service)])
		}
	}
	f.mu.Unlock()
	for _, one := range waiting {
		select {
		case <-one.first:
		case <-ctx.Done():
			return
		}
	}
}

// wake has the server asked at once.
func (f *follower) wake() {
	for _, half := range []chan struct{}{f.discovery, f.documents} {
		select {
		case half <- struct{}{}:
		default: // it is going to ask anyway
		}
	}
}

func (f *follower) followDiscovery(ctx context.Context) {
	var known discovered
	asked := f.first
	again(ctx, f.discovery, func(ctx context.Context) error {
		err := f.discover(ctx, &known)
		if asked != nil {
			close(asked)
			asked = nil
		}
		return err
	})
}

func (f *follower) followDocuments(ctx context.Context) {
	var known string
	again(ctx, f.documents, func(ctx context.Context) error { return f.readDocument(ctx, &known) })
}

// again asks now, when woken, and every so often, until the context ends.
func again(ctx context.Context, woken <-chan struct{}, ask func(context.Context) error) {
	repeat := workloop.Repeat{Interval: refresh, FirstRetry: firstRetry, LastRetry: refresh, Signals: woken}
	repeat.Run(ctx, ask, func(err error) {
		klog.FromContext(ctx).V(2).Info("Asking the server behind an APIService", "reason", err.Error())
	})
}
