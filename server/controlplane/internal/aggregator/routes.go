// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"net/http"

	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
)

// legacyService is that of the core group, which is not below /apis.
const legacyService = "v1."

// routes sends what is below the path of an APIService to its server, or to the next one if the APIService is local or there is none.
// Its methods are not called at the same time.
type routes struct {
	mux    *mux.PathRecorderMux
	lister listers.APIServiceLister
	next   http.Handler
	proxy  *proxy
	// groups counts the versions of each.
	groups map[string]int
}

func pathsOf(name string) (group, version string) {
	if name == legacyService {
		return "", "/api"
	}
	of := helper.APIServiceNameToGroupVersion(name)
	return "/apis/" + of.Group, "/apis/" + of.Group + "/" + of.Version
}

func (r *routes) add(name string) {
	group, version := pathsOf(name)
	route := &route{routes: r, name: name}
	r.mux.Handle(version, route)
	r.mux.UnlistedHandlePrefix(version+"/", route)
	if group == "" {
		return
	}
	if r.groups[group]++; r.groups[group] > 1 {
		return
	}
	described := &oneGroup{name: helper.APIServiceNameToGroupVersion(name).Group, lister: r.lister, next: r.next}
	r.mux.Handle(group, described)
	r.mux.UnlistedHandle(group+"/", described)
}

func (r *routes) remove(name string) {
	group, version := pathsOf(name)
	r.mux.Unregister(version)
	r.mux.Unregister(version + "/")
	if group == "" {
		return
	}
	if r.groups[group]--; r.groups[group] > 0 {
		return
	}
	delete(r.groups, group)
	r.mux.Unregister(group)
	r.mux.Unregister(group + "/")
}

// route is the way to what is behind one APIService.
type route struct {
	*routes
	name string
	way  way
}

func (r *route) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	service, err := r.lister.Get(r.name)
	if err != nil || service.Spec.Service == nil {
		r.next.ServeHTTP(w, request)
		return
	}
	r.proxy.pass(w, request, service, &r.way)
}
