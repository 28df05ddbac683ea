// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
)

// priority orders a group-version in discovery: larger values first, the group before the version.
type priority struct{ group, version int32 }

// additionalPriority is the priority of Options.AdditionalGroups, that of custom resources in Kubernetes.
var additionalPriority = priority{1000, 100}

// builtInPriorities returns the priorities of the same groups in Kubernetes. A group-version without a priority gets no APIService and is not
// reachable.
func builtInPriorities() map[schema.GroupVersion]priority {
	return map[schema.GroupVersion]priority{
		{Group: "", Version: "v1"}:                             {18000, 1},
		{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
		{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
		{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
		{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
		{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
		{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
		{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
		{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
		{Group: "storagemigration.k8s.io", Version: "v1"}:      {15800, 15},
	}
}

// priorities returns the priorities of all groups of the server of built-in resources.
func (o *completedOptions) priorities() map[schema.GroupVersion]priority {
	all := builtInPriorities()
	for _, group := range o.kinds.AdditionalGroups() {
		all[group.Version] = additionalPriority
	}
	return all
}

// orderDiscovery sets the order of groups in discovery.
func (c *completedConfig) orderDiscovery() {
	for version, p := range c.options.priorities() {
		c.native.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(metav1.GroupVersion(version), int(p.group), int(p.version))
	}
}

// localAPIServices returns an APIService for every group-version that the server of built-in resources lists.
func localAPIServices(paths []string, priorities map[schema.GroupVersion]priority) []*apiregistrationv1.APIService {
	var services []*apiregistrationv1.APIService
	for _, path := range paths {
		version, ok := groupVersionOf(path)
		p, listed := priorities[version]
		if !ok || !listed {
			continue
		}
		services = append(services, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: version.Version + "." + version.Group},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: version.Group, Version: version.Version, GroupPriorityMinimum: p.group, VersionPriority: p.version,
			},
		})
	}
	return services
}

// groupVersionOf returns the group-version that is served at a path.
func groupVersionOf(path string) (schema.GroupVersion, bool) {
	if path == "/api/v1" {
		return schema.GroupVersion{Version: "v1"}, true
	}
	parts := strings.Split(path, "/")
	if len(parts) != 4 || parts[1] != "apis" {
		return schema.GroupVersion{}, false
	}
	return schema.GroupVersion{Group: parts[2], Version: parts[3]}, true
}

// allAvailable returns a readiness check that fails until each of the APIServices has been available once.
func allAvailable(lister listers.APIServiceLister, services []*apiregistrationv1.APIService) func(*http.Request) error {
	var mu sync.Mutex
	missing := sets.New[string]()
	for _, service := range services {
		missing.Insert(service.Name)
	}
	return func(*http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		for name := range missing {
			service, err := lister.Get(name)
			if err == nil && helper.IsAPIServiceConditionTrue(service, apiregistrationv1.Available) {
				missing.Delete(name)
			}
		}
		if missing.Len() > 0 {
			return fmt.Errorf("APIServices that are not available yet: %v", sets.List(missing))
		}
		return nil
	}
}
