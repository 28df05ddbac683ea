// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"github.com/kube-annex/annex/test/framework"
)

// published returns v1 of a group in aggregated discovery.
func (w *world) discovered(t *testing.T, version string) []apidiscoveryv2.APIResourceDiscovery {
	t.Helper()
	raw, err := w.Kubernetes.Discovery().RESTClient().Get().AbsPath("/apis").SetHeader("Accept", discovery.AcceptV2).DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := apidiscoveryv2.APIGroupDiscoveryList{}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		for _, found := range item.Versions {
			if item.Name == group && found.Version == version {
				return found.Resources
			}
		}
	}
	return nil
}

// testDiscovery has a kind in discovery of both sorts, with all its names, until it is not served anymore.
func testDiscovery(t *testing.T, w *world) {
	w.define(t, "Found", "scope: Cluster\nnames: {plural: founds, singular: found, shortNames: [fd], categories: [annexes]}\n"+
		oneVersion("spec: {type: object, properties: {replicas: {type: integer}}}\nstatus: {type: object, properties: {replicas: {type: integer}}}")+
		"\n  subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}")
	ours := func(resource apidiscoveryv2.APIResourceDiscovery) bool { return resource.Resource == "founds" }
	var got apidiscoveryv2.APIResourceDiscovery
	framework.Eventually(t, patience, func() error {
		resources := w.discovered(t, "v1")
		i := slices.IndexFunc(resources, ours)
		if i < 0 {
			return errors.New("the kind is not in discovery")
		}
		got = resources[i]
		return nil
	})
	for i := range got.Subresources {
		slices.Sort(got.Subresources[i].Verbs)
	}
	slices.Sort(got.Verbs)
	slices.SortFunc(got.Subresources, func(a, b apidiscoveryv2.APISubresourceDiscovery) int {
		return strings.Compare(a.Subresource, b.Subresource)
	})
	want := apidiscoveryv2.APIResourceDiscovery{
		Resource: "founds", SingularResource: "found", Scope: apidiscoveryv2.ScopeCluster, ShortNames: []string{"fd"}, Categories: []string{"annexes"},
		ResponseKind: &metav1.GroupVersionKind{Group: group, Version: "v1", Kind: "Found"},
		Verbs:        []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		Subresources: []apidiscoveryv2.APISubresourceDiscovery{
			{Subresource: "scale", ResponseKind: &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, Verbs: []string{"get", "patch", "update"}},
			{Subresource: "status", ResponseKind: &metav1.GroupVersionKind{Group: group, Version: "v1", Kind: "Found"}, Verbs: []string{"get", "patch", "update"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("aggregated (-want,+got):\n%s", diff)
	}
	framework.Eventually(t, patience, func() error {
		plain, err := w.Kubernetes.Discovery().ServerResourcesForGroupVersion(group + "/v1")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(plain.APIResources, func(resource metav1.APIResource) bool { return resource.Name == "founds" })
		if i < 0 {
			return errors.New("the kind is not in plain discovery")
		}
		if found := plain.APIResources[i]; found.ShortNames[0] != "fd" || found.Categories[0] != "annexes" || found.Namespaced || found.StorageVersionHash == "" {
			t.Errorf("plain: %+v", found)
		}
		return nil
	})
	object := "apiVersion: " + group + "/v1\nkind: Found\nmetadata: {name: a}\n"
	w.apply(t, object)
	for _, name := range []string{"fd", "found", "founds", "founds." + group, "founds.v1." + group, "annexes"} {
		w.kubectl.WantEventually(t, `^found.test.example.com/a$`, "get", name, "-o", "name")
	}
	w.change(t, "founds", func(definition *apiextensionsv1.CustomResourceDefinition) {
		definition.Spec.Versions = append(definition.Spec.Versions, *definition.Spec.Versions[0].DeepCopy())
		definition.Spec.Versions[0].Served = false
		definition.Spec.Versions[1].Name, definition.Spec.Versions[1].Storage = "v2beta1", false
	})
	framework.Eventually(t, patience, func() error {
		if slices.ContainsFunc(w.discovered(t, "v1"), ours) || !slices.ContainsFunc(w.discovered(t, "v2beta1"), ours) {
			return errors.New("discovery has not followed the definition")
		}
		return nil
	})
}

// apply has kubectl apply a manifest.
func (w *world) apply(t *testing.T, manifest string) {
	t.Helper()
	command := w.kubectl.Command(t.Context(), "apply", "-f", "-")
	command.Stdin = strings.NewReader(manifest)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("kubectl apply: %v\n%s", err, out)
	}
}

// testOpenAPI publishes a schema, a changed one, and none.
func testOpenAPI(t *testing.T, w *world) {
	w.define(t, "Explained", "names: {plural: explaineds}\n"+oneVersion("spec: {type: object, description: what is wanted, properties: {size: {type: integer, description: how large it is}}}"))
	documents := func(says string, is bool) {
		t.Helper()
		framework.Eventually(t, patience, func() error {
			for _, path := range []string{"/openapi/v2", "/openapi/v3/apis/" + group + "/v1"} {
				document, err := w.Kubernetes.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
				if err != nil && is {
					return err
				}
				if strings.Contains(string(document), says) != is {
					return fmt.Errorf("%s: %q is in it: %t, want %t", path, says, !is, is)
				}
			}
			return nil
		})
	}
	documents("how large it is", true)
	w.kubectl.WantEventually(t, `how large it is`, "explain", "explained.spec.size")
	w.kubectl.WantEventually(t, `how large it is`, "explain", "explained.spec", "--output=plaintext-openapiv2")
	w.change(t, "explaineds", func(definition *apiextensionsv1.CustomResourceDefinition) {
		spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		spec.Properties["size"] = apiextensionsv1.JSONSchemaProps{Type: "integer", Description: "in litres", XValidations: apiextensionsv1.ValidationRules{{Rule: "self > 0"}}}
	})
	documents("in litres", true)
	documents("how large it is", false)
	w.kubectl.WantEventually(t, `in litres`, "explain", "explained.spec.size")
	if err := w.definitions().Delete(t.Context(), "explaineds."+group, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	documents("in litres", false)
}

// testTables prints objects with columns of the definition.
func testTables(t *testing.T, w *world) {
	o := w.define(t, "Printed", "names: {plural: printed}\n"+oneVersion("spec: {type: object, properties: {size: {type: integer}, when: {type: string, format: date-time}, note: {type: string}, tags: {type: array, items: {type: string}}}}")+`
  additionalPrinterColumns:
  - {name: Size, type: integer, jsonPath: .spec.size, description: how large}
  - {name: Tag, type: string, jsonPath: '.spec.tags[0]'}
  - {name: When, type: date, jsonPath: .spec.when}
  - {name: Note, type: string, jsonPath: .spec.note, priority: 1}`)
	o.create(t, "a", fmt.Sprintf("spec: {size: 3, note: remember, tags: [x, z], when: %q}", time.Now().Add(-time.Hour*24*3).UTC().Format(time.RFC3339)))
	o.create(t, "b", "spec: {}")
	w.kubectl.WantEventually(t, `^NAME +SIZE +TAG +WHEN\na +3 +x +3d\nb *$`, "get", "printed")
	w.kubectl.WantEventually(t, `^NAME +SIZE +TAG +WHEN +NOTE\na +3 +x +3d +remember\nb *$`, "get", "printed", "-o", "wide")
}
