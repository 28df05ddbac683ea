// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/kube-aggregator/pkg/apiserver/scheme"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
)

// groups lists the groups of all APIServices, for clients from before aggregated discovery.
type groups struct {
	lister listers.APIServiceLister
}

func (g *groups) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	services, err := g.lister.List(labels.Everything())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// There is no APIService for the group of APIServices.
	list := &metav1.APIGroupList{Groups: []metav1.APIGroup{groupOf([]*apiregistrationv1.APIService{{
		Spec: apiregistrationv1.APIServiceSpec{Group: apiregistrationv1.GroupName, Version: apiregistrationv1.SchemeGroupVersion.Version},
	}})}}
	for _, group := range helper.SortedByGroupAndVersion(services) {
		if group[0].Spec.Group != "" {
			list.Groups = append(list.Groups, groupOf(group))
		}
	}
	responsewriters.WriteObjectNegotiated(scheme.Codecs, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{}, w, r, http.StatusOK, list, false)
}

// groupOf describes the group of APIServices that are in order.
func groupOf(services []*apiregistrationv1.APIService) metav1.APIGroup {
	group := metav1.APIGroup{Name: services[0].Spec.Group}
	for _, service := range services {
		version := schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version})
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

// oneGroup describes one group.
type oneGroup struct {
	name   string
	lister listers.APIServiceLister
	next   http.Handler
}

func (g *oneGroup) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	services, err := g.lister.List(labels.Everything())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, group := range helper.SortedByGroupAndVersion(services) {
		if group[0].Spec.Group == g.name {
			described := groupOf(group)
			responsewriters.WriteObjectNegotiated(scheme.Codecs, negotiation.DefaultEndpointRestrictions, schema.GroupVersion{}, w, r, http.StatusOK, &described, false)
			return
		}
	}
	g.next.ServeHTTP(w, r)
}
