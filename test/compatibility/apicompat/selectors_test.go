// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apicompat

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// fieldLabels are all that some kind or other can be selected by, and more. The value is one that nothing has.
var fieldLabels = []string{
	"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "name", "spec.name", "type", "status", "status.phase", "unknown",
	"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
	"involvedObject.resourceVersion", "involvedObject.fieldPath", "regarding.kind", "regarding.namespace", "regarding.name", "regarding.uid",
	"regarding.apiVersion", "regarding.resourceVersion", "regarding.fieldPath", "reason", "reportingComponent", "reportingController", "source",
	"spec.signerName", "spec.holderIdentity", "spec.type", "spec.priorityLevelConfiguration.name",
}

// namespaceless are kinds without namespaces whose objects kube-apiserver refuses to select by metadata.namespace. Of other such kinds
// it returns none, as we do of all.
var namespaceless = []string{"certificatesigningrequests", "namespaces"}

// TestFieldSelectors asks for lists, and for all of them at once where objects have namespaces.
func TestFieldSelectors(t *testing.T) {
	t.Parallel()
	for path, group := range sharedVersions(t) {
		for name, resource := range named(mustGet(t, kube, path).object["resources"], "name") {
			verbs, _ := resource["verbs"].([]any)
			if absent[strings.Split(name, "/")[0]] != "" || !slices.Contains(verbs, any("list")) {
				continue
			}
			t.Run(group+"/"+name, func(t *testing.T) {
				t.Parallel()
				collections := []string{path + "/" + name}
				if resource["namespaced"] == true {
					collections = append(collections, path+"/namespaces/"+namespace+"/"+name)
				}
				for _, collection := range collections {
					for _, label := range fieldLabels {
						if label == "metadata.namespace" && slices.Contains(namespaceless, name) {
							continue
						}
						compareSelection(t, collection, label+"=nothing")
					}
					compareSelection(t, collection, "metadata.name!=nothing,metadata.name=nothing")
					compareSelection(t, collection, "metadata.name")
					compareSelection(t, collection, "metadata.name in (nothing)")
				}
			})
		}
	}
}

func compareSelection(t *testing.T, collection, selector string) {
	t.Helper()
	r := request{method: http.MethodGet, path: collection, query: url.Values{"fieldSelector": {selector}}}
	var answers [2][]answer
	for i, s := range []*server{kube, annex} {
		a, err := s.ask(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		a.to = collection + " with " + selector
		answers[i] = []answer{a}
	}
	if diff := differences(answers[0], answers[1]); diff != "" {
		t.Error(diff)
	}
}
