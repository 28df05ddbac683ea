// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	containers = "it is about containers, nodes, volumes or networks, which a generic control plane does not have"
	external   = "none of it is among the kinds of a generic control plane"
	deprecated = "it is deprecated, and of no use without the components of a cluster"
)

// absent are the resources that kube-apiserver has in groups that we serve, and that we leave out with their subresources.
var absent = map[string]string{
	"bindings": containers, "endpoints": containers, "limitranges": containers, "nodes": containers, "persistentvolumeclaims": containers,
	"persistentvolumes": containers, "pods": containers, "podtemplates": containers, "replicationcontrollers": containers, "services": containers,
	"clustertrustbundles": containers, "podcertificaterequests": containers,
	"componentstatuses": deprecated,
}

// absentGroups are those of kube-apiserver's groups that we do not serve.
var absentGroups = map[string]string{
	"apps": external, "autoscaling": external, "batch": external, "discovery.k8s.io": external, "networking.k8s.io": external, "policy": external,
	"resource.k8s.io": external, "scheduling.k8s.io": external, "storage.k8s.io": external,
}

// ownVersions are resources that kube-apiserver stores in another version than ours does, so that the hashes of the versions differ.
var ownVersions = map[string]string{
	"customresourcedefinitions": "kube-apiserver stores them as v1beta1 for the sake of old clusters; ours never had them in another version than v1",
	"storageversionmigrations":  "as for customresourcedefinitions",
}

func TestDiscoveryOfGroups(t *testing.T) {
	t.Parallel()
	ours := groupsOf(t, annex)
	var shared []string
	for _, group := range groupsOf(t, kube) {
		switch why, listed := absentGroups[group]; {
		case slices.Contains(ours, group) && listed:
			t.Errorf("%s is served, and listed as absent: %s", group, why)
		case slices.Contains(ours, group):
			shared = append(shared, group)
		case !listed:
			t.Errorf("%s is not served, and not listed as absent", group)
		}
	}
	ours = slices.DeleteFunc(ours, func(group string) bool { return !slices.Contains(shared, group) })
	if diff := cmp.Diff(shared, ours); diff != "" {
		t.Errorf("the order of groups (-kube-apiserver,+annex):\n%s", diff)
	}
}

// TestWhatIsAbsentIsKnown finds entries of the lists that kube-apiserver knows nothing of.
func TestWhatIsAbsentIsKnown(t *testing.T) {
	t.Parallel()
	theirs := groupsOf(t, kube)
	for group := range absentGroups {
		if !slices.Contains(theirs, group) {
			t.Errorf("kube-apiserver has no group %s", group)
		}
	}
	names := map[string]bool{}
	for path := range sharedVersions(t) {
		for name := range named(mustGet(t, kube, path).object["resources"], "name") {
			names[name] = true
		}
	}
	for _, list := range []map[string]string{absent, ownVersions} {
		for name := range list {
			if !names[name] {
				t.Errorf("kube-apiserver has no %s in the groups of both", name)
			}
		}
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	for path := range sharedVersions(t) {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			t.Parallel()
			want := named(mustGet(t, kube, path).object["resources"], "name")
			got := named(mustGet(t, annex, path).object["resources"], "name")
			for name, resource := range want {
				parent, _, _ := strings.Cut(name, "/")
				why, listed := absent[parent]
				if !listed {
					hashOfVersion(t, parent, resource, got[name])
					continue
				}
				delete(want, name)
				if _, served := got[name]; served {
					t.Errorf("%s is served, and listed as absent: %s", name, why)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("resources (-kube-apiserver,+annex):\n%s", diff)
			}
		})
	}
}

// hashOfVersion takes the hashes away where they differ on purpose.
func hashOfVersion(t *testing.T, name string, ofKube, ofAnnex map[string]any) {
	t.Helper()
	const key = "storageVersionHash"
	if ownVersions[name] == "" || ofKube[key] == nil || ofAnnex[key] == nil {
		return
	}
	if ofKube[key] == ofAnnex[key] {
		t.Errorf("%s has the same storage version in both, although it is listed as different: %s", name, ownVersions[name])
	}
	delete(ofKube, key)
	delete(ofAnnex, key)
}

// TestAggregatedDiscovery is about the form in which kubectl asks, in one request for all groups.
func TestAggregatedDiscovery(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/api", "/apis"} {
		t.Run(strings.TrimPrefix(path, "/"), func(t *testing.T) {
			t.Parallel()
			want, got := aggregated(t, kube, path), aggregated(t, annex, path)
			compared := 0
			for name, resource := range got {
				wanted, shared := want[name]
				if group, _, _ := strings.Cut(name, "/"); !shared || ofTests(group) {
					continue
				}
				compared++
				if diff := cmp.Diff(wanted, resource); diff != "" {
					t.Errorf("%s (-kube-apiserver,+annex):\n%s", name, diff)
				}
			}
			if compared == 0 {
				t.Error("no resource was compared")
			}
		})
	}
}

// aggregated returns what is told about each resource, by group, version and name.
func aggregated(t *testing.T, s *server, path string) map[string]map[string]any {
	t.Helper()
	const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	out := map[string]map[string]any{}
	a := mustAsk(t.Context(), t, s, request{method: http.MethodGet, path: path, accept: accept})
	for _, group := range objects(a.object["items"]) {
		metadata, _ := group["metadata"].(map[string]any)
		groupName, _ := metadata["name"].(string)
		for _, version := range objects(group["versions"]) {
			versionName, _ := version["version"].(string)
			for name, resource := range named(version["resources"], "resource") {
				out[groupName+"/"+versionName+"/"+name] = resource
			}
		}
	}
	return out
}

func mustAsk(ctx context.Context, t *testing.T, s *server, r request) answer {
	t.Helper()
	a, err := s.ask(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if a.code != http.StatusOK {
		t.Fatalf("%s answers %d to %s %s: %s", s.name, a.code, r.method, r.path, a.text)
	}
	return a
}

func mustGet(t *testing.T, s *server, path string) answer {
	t.Helper()
	return mustAsk(t.Context(), t, s, request{method: http.MethodGet, path: path})
}

func groupsOf(t *testing.T, s *server) []string {
	t.Helper()
	var out []string
	for _, group := range objects(mustGet(t, s, "/apis").object["groups"]) {
		if name, _ := group["name"].(string); !ofTests(name) {
			out = append(out, name)
		}
	}
	return out
}

// ofTests tells whether the kinds of a group are custom ones, which come and go while tests run.
func ofTests(group string) bool { return strings.HasSuffix(group, "example.com") }

// sharedVersions are the paths of the group-versions that both servers have, each with the name of its group.
func sharedVersions(t *testing.T) map[string]string {
	t.Helper()
	ours, theirs := versionsOf(t, annex), versionsOf(t, kube)
	maps.DeleteFunc(ours, func(path, _ string) bool { return theirs[path] == "" })
	ours["/api/v1"] = "core"
	return ours
}

func versionsOf(t *testing.T, s *server) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, group := range objects(mustGet(t, s, "/apis").object["groups"]) {
		name, _ := group["name"].(string)
		if ofTests(name) {
			continue
		}
		for _, version := range objects(group["versions"]) {
			groupVersion, _ := version["groupVersion"].(string)
			out["/apis/"+groupVersion] = name
		}
	}
	return out
}

// objects returns the objects of a list.
func objects(list any) []map[string]any {
	items, _ := list.([]any)
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		if item, ok := item.(map[string]any); ok {
			out = append(out, item)
		}
	}
	return out
}

// named returns the objects of a list by the name that each has under the key.
func named(list any, key string) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, item := range objects(list) {
		name, _ := item[key].(string)
		out[name] = item
	}
	return out
}
