// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/client-go/discovery"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const (
	// discoveryPatience is how long an answer about discovery may take, and maxDiscovery how long it may be.
	discoveryPatience = 5 * time.Second
	maxDiscovery      = 16 << 20
)

// aggregatedDiscovery is the type of a list of all that a server has.
var aggregatedDiscovery = schema.GroupVersionKind{Group: "apidiscovery.k8s.io", Version: "v2", Kind: "APIGroupDiscoveryList"}

// discovered is what a server has said that it has.
type discovered struct {
	versions map[metav1.GroupVersion]apidiscoveryv2.APIVersionDiscovery
	// etag is of the aggregated list; empty where the server has none.
	etag string
}

// discover asks the server, and publishes what it says for each of its APIServices. Where it does not answer, what is known stays, as stale.
func (f *follower) discover(ctx context.Context, known *discovered) error {
	services := f.all.of(f.server)
	if len(services) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, discoveryPatience)
	defer cancel()
	if known.versions == nil {
		known.versions = map[metav1.GroupVersion]apidiscoveryv2.APIVersionDiscovery{}
	}
	legacy, err := f.discoverAll(ctx, services[0], known)
	errs := []error{err}
	for _, service := range services {
		version := versionOf(service)
		failure := err
		if err == nil && legacy {
			failure = f.discoverOne(ctx, service, known)
			errs = append(errs, failure)
		}
		entry, ok := known.versions[version]
		if failure != nil || !ok {
			entry = stale(version, known)
		}
		if failure == nil {
			// A server that does not know of the version has nothing in it.
			entry.Freshness = apidiscoveryv2.DiscoveryFreshnessCurrent
		}
		f.all.publish(service, f.server, func() { f.all.discovery.AddGroupVersion(version.Group, entry) })
	}
	return errors.Join(errs...)
}

// stale returns what was known of a version, if anything was.
func stale(version metav1.GroupVersion, known *discovered) apidiscoveryv2.APIVersionDiscovery {
	entry := apidiscoveryv2.APIVersionDiscovery{Version: version.Version}
	if known != nil {
		if last, ok := known.versions[version]; ok {
			entry = last
		}
	}
	entry.Freshness = apidiscoveryv2.DiscoveryFreshnessStale
	return entry
}

// discoverAll asks for everything at once. It returns whether the server is from before that could be asked.
func (f *follower) discoverAll(ctx context.Context, service *apiregistrationv1.APIService, known *discovered) (legacy bool, err error) {
	answer, err := f.all.servers.Ask(ctx, service, remoteservers.Question{
		Path: "/apis", User: "system:kube-aggregator", Groups: []string{user.SystemPrivilegedGroup},
		Accept: discovery.AcceptV2, Etag: known.etag, Limit: maxDiscovery,
	})
	if err != nil {
		return false, err
	}
	isList, _ := discovery.ContentTypeIsGVK(answer.Header.Get("Content-Type"), aggregatedDiscovery)
	switch {
	case answer.Status == http.StatusNotModified && known.etag != "":
		return false, nil
	case answer.Status == http.StatusServiceUnavailable:
		return false, fmt.Errorf("%s is not available", service.Name)
	case answer.Status != http.StatusOK || !isList:
		known.etag = ""
		return true, nil
	}
	list := apidiscoveryv2.APIGroupDiscoveryList{}
	if err = json.Unmarshal(answer.Body, &list); err != nil {
		return false, fmt.Errorf("read the list of what %s has: %w", service.Name, err)
	}
	known.versions, known.etag = map[metav1.GroupVersion]apidiscoveryv2.APIVersionDiscovery{}, answer.Header.Get("Etag")
	for _, group := range list.Items {
		for _, version := range group.Versions {
			fillResponseKinds(version.Resources)
			known.versions[metav1.GroupVersion{Group: group.Name, Version: version.Version}] = version
		}
	}
	return false, nil
}

// fillResponseKinds spares old clients what they would panic on.
func fillResponseKinds(resources []apidiscoveryv2.APIResourceDiscovery) {
	for i := range resources {
		if resources[i].ResponseKind == nil {
			resources[i].ResponseKind = &metav1.GroupVersionKind{}
		}
		for j := range resources[i].Subresources {
			if resources[i].Subresources[j].ResponseKind == nil {
				resources[i].Subresources[j].ResponseKind = &metav1.GroupVersionKind{}
			}
		}
	}
}

// discoverOne asks for the resources of one version.
func (f *follower) discoverOne(ctx context.Context, service *apiregistrationv1.APIService, known *discovered) error {
	version := versionOf(service)
	_, path := pathsOf(service.Name)
	if version.Group == "" {
		path += "/" + version.Version
	}
	answer, err := f.all.servers.Ask(ctx, service, remoteservers.Question{
		Path: path, User: "system:kube-aggregator", Groups: []string{user.SystemPrivilegedGroup}, Accept: runtime.ContentTypeJSON, Limit: maxDiscovery,
	})
	if err != nil {
		return err
	}
	if answer.Status != http.StatusOK {
		return fmt.Errorf("the server behind %s answers a question for its resources with status %d", service.Name, answer.Status)
	}
	list := metav1.APIResourceList{}
	if err = json.Unmarshal(answer.Body, &list); err != nil {
		return fmt.Errorf("read the resources of %s: %w", service.Name, err)
	}
	resources, err := endpoints.ConvertGroupVersionIntoToDiscovery(list.APIResources)
	if err != nil {
		return fmt.Errorf("read the resources of %s: %w", service.Name, err)
	}
	known.versions[version] = apidiscoveryv2.APIVersionDiscovery{Version: version.Version, Resources: resources}
	return nil
}
