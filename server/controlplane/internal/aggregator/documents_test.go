// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// sent is the document of a server, with one model.
func sent(group, model, schema string) []byte {
	return fmt.Appendf(nil, `{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{"/apis/%s/v1/things":{"get":{"operationId":"list","responses":
		{"200":{"description":"OK","schema":{"$ref":"#/definitions/%s"}}}}},"/apis/others/v1/things":{}},"definitions":{"%s":%s}}`, group, model, model, schema)
}

func localDocument(t *testing.T, model, schema string) cached.Value[*spec.Swagger] {
	t.Helper()
	document := &spec.Swagger{}
	if err := document.UnmarshalJSON(sent("local", model, schema)); err != nil {
		t.Fatal(err)
	}
	return cached.Static(document, "local")
}

func named(group string, priority int32) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1." + group}, Spec: apiregistrationv1.APIServiceSpec{Group: group, Version: "v1", GroupPriorityMinimum: priority},
	}
}

func TestMergedDocuments(t *testing.T) {
	t.Parallel()
	const plain, kind, noKind = `{"type":"object"}`,
		`{"type":"object","x-kubernetes-group-version-kind":[{"group":"a","version":"v1","kind":"A"}]}`,
		`{"type":"object","x-kubernetes-group-version-kind":"none"}`
	for name, tc := range map[string]struct {
		// local is the model of the local document, and remote are documents by group; the first group is the most important one.
		local  string
		remote map[string][]byte
		// want are the models, with their extensions.
		want map[string]any
	}{
		"one":          {local: plain, remote: map[string][]byte{"b": sent("b", "thing", plain)}, want: map[string]any{"local": nil, "thing": nil}},
		"none yet":     {local: plain, remote: map[string][]byte{"b": nil}, want: map[string]any{"local": nil}},
		"the same":     {local: plain, remote: map[string][]byte{"b": sent("b", "local", plain)}, want: map[string]any{"local": nil}},
		"another":      {local: plain, remote: map[string][]byte{"b": sent("b", "local", `{"type":"string"}`)}, want: map[string]any{"local": nil, "local_v2": nil}},
		"of two":       {local: plain, remote: map[string][]byte{"b": sent("b", "thing", plain), "c": sent("c", "thing", `{"type":"string"}`)}, want: map[string]any{"local": nil, "thing": nil, "thing_v2": nil}},
		"broken":       {local: plain, remote: map[string][]byte{"b": []byte(`{"paths":`), "c": sent("c", "thing", plain)}, want: map[string]any{"local": nil, "thing": nil}},
		"another kind": {local: plain, remote: map[string][]byte{"b": sent("b", "local", kind)}, want: map[string]any{"local": []any{map[string]any{"group": "a", "version": "v1", "kind": "A"}}}},
		// With Kubernetes' aggregator nobody has any document from then on.
		"kinds that are none": {local: kind, remote: map[string][]byte{"b": sent("b", "local", noKind), "c": sent("c", "thing", plain)}, want: map[string]any{"local": []any{map[string]any{"group": "a", "version": "v1", "kind": "A"}}, "thing": nil}},
		"a missing model":     {local: plain, remote: map[string][]byte{"b": []byte(`{"swagger":"2.0","info":{"title":"x","version":"1"},"paths":{"/apis/b/v1/things":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/none"}}}}}},"definitions":{"x":{"properties":{"y":{"$ref":"#/definitions/none"}}}}}`)}, want: map[string]any{"local": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := newDocuments()
			for i, group := range slices.Sorted(maps.Keys(tc.remote)) {
				service := named(group, int32(100-i))
				all.add(service)
				all.set(service.Name, tc.remote[group], string(tc.remote[group]))
			}
			local := localDocument(t, "local", tc.local)
			for range 2 { // the local document must stay as it is
				sum, _, err := all.mergedWith([]cached.Value[*spec.Swagger]{local}).Get()
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]any{}
				for name, model := range sum.Definitions {
					got[name] = model.Extensions["x-kubernetes-group-version-kind"]
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("models (-want,+got):\n%s", diff)
				}
			}
			untouched, _, _ := local.Get()
			want := &spec.Swagger{}
			if err := want.UnmarshalJSON(sent("local", "local", tc.local)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Definitions["local"].Extensions, untouched.Definitions["local"].Extensions); diff != "" {
				t.Errorf("the local document has changed (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestTheLastGoodDocumentStays(t *testing.T) {
	t.Parallel()
	all := newDocuments()
	changes := 0
	all.changed = func() { changes++ }
	service := named("b", 100)
	all.add(service)
	models := func() []string {
		t.Helper()
		sum, _, err := all.mergedWith([]cached.Value[*spec.Swagger]{localDocument(t, "local", "{}")}).Get()
		if err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(sum.Definitions))
	}
	for _, step := range []struct {
		document []byte
		want     []string
	}{
		{sent("b", "one", "{}"), []string{"local", "one"}},
		{sent("b", "two", "{}"), []string{"local", "two"}},
		{[]byte(`{"paths":[]}`), []string{"local", "two"}},
		{sent("b", "three", "{}"), []string{"local", "three"}},
	} {
		all.set(service.Name, step.document, string(step.document))
		if diff := cmp.Diff(step.want, models()); diff != "" {
			t.Errorf("after %.60s (-want,+got):\n%s", step.document, diff)
		}
	}
	all.add(service)
	all.add(named("b", 200))
	all.remove(service)
	if diff := cmp.Diff([]string{"local"}, models()); diff != "" || changes != 3 {
		t.Errorf("%d changes, want 3 (-want,+got):\n%s", changes, diff)
	}
}
