// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/server/admissiontest"
	"github.com/kube-annex/annex/test/framework"
)

// definition is a good one. The schema of spec is JSON; versions are v1, which is stored, and others.
func definition(t *testing.T, group, plural, kind, spec string, others ...string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	root := apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(`{"type":"object","properties":{"spec":`+spec+`}}`), &root); err != nil {
		t.Fatal(err)
	}
	d := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
		},
	}
	for _, version := range append([]string{"v1"}, others...) {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: version == "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: root.DeepCopy()},
		})
	}
	return d
}

var widgets = schema.GroupVersionResource{Group: "good.example.com", Version: "v1", Resource: "widgets"}

// defineWidgets defines a kind with which nothing is wrong, and makes an object of it.
func (c *clients) defineWidgets(t *testing.T) {
	t.Helper()
	c.define(t, definition(t, widgets.Group, widgets.Resource, "Widget", sized))
	if err := c.create(t, widgets, "Widget", "before", 1); err != nil {
		t.Fatal(err)
	}
}

const sized = `{"type":"object","properties":{"size":{"type":"integer"}}}`

func (c *clients) define(t *testing.T, d *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	if _, err := c.definitions.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitCondition(t, d.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue, "InitialNamesAccepted", "")
	for _, version := range d.Spec.Versions {
		framework.Eventually(t, patience, func() error {
			return c.check(t, "/apis/"+d.Spec.Group+"/"+version.Name, http.StatusOK, `"`+d.Spec.Names.Plural+`"`)
		})
	}
}

func (c *clients) waitCondition(t *testing.T, name string, kind apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus, reason, message string) {
	t.Helper()
	framework.Eventually(t, patience, func() error {
		d, err := c.definitions.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range d.Status.Conditions {
			if condition.Type == kind && condition.Status == status && condition.Reason == reason && strings.Contains(condition.Message, message) {
				return nil
			}
		}
		return fmt.Errorf("%s has conditions %+v, want %s=%s %s %q", name, d.Status.Conditions, kind, status, reason, message)
	})
}

func object(group, version, kind, name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version, "kind": kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size},
	}}
}

func (c *clients) create(t *testing.T, resource schema.GroupVersionResource, kind, name string, size int64) error {
	t.Helper()
	_, err := c.dynamic.Resource(resource).Namespace("default").Create(t.Context(), object(resource.Group, resource.Version, kind, name, size), metav1.CreateOptions{})
	return err
}

func (c *clients) mustHaveObject(t *testing.T, resource schema.GroupVersionResource, name string, size int64) {
	t.Helper()
	got, err := c.dynamic.Resource(resource).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Errorf("%s %s: %v", resource.Resource, name, err)
		return
	}
	if found, _, _ := unstructured.NestedInt64(got.Object, "spec", "size"); found != size {
		t.Errorf("%s %s: size is %d, want %d", resource.Resource, name, found, size)
	}
}

// brokenDefinitions makes some of each kind, and others that work. What they do to others is nothing.
func brokenDefinitions(t *testing.T, a *annex) {
	c := a.clients
	all := c.definitions.ApiextensionsV1().CustomResourceDefinitions()

	t.Run("not admitted", func(t *testing.T) {
		for name, tc := range map[string]struct {
			spec   string
			change func(*apiextensionsv1.CustomResourceDefinition)
			want   []string
		}{
			"schema that is not structural": {
				spec: `{"properties":{"size":{"type":"integer"}}}`,
				want: []string{"openAPIV3Schema.properties[spec].type", "must not be empty for specified object fields"},
			},
			"rule that does not compile": {
				spec: `{"type":"object","properties":{"size":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.sise > 1"}]}`,
				want: []string{"x-kubernetes-validations[0].rule", "compilation failed", "undefined field 'sise'"},
			},
			"rule that costs too much": {
				spec: `{"type":"object","properties":{"texts":{"type":"array","items":{"type":"string"}}},"x-kubernetes-validations":[{"rule":"self.texts.all(a, self.texts.all(b, a.contains(b)))"}]}`,
				want: []string{"x-kubernetes-validations[0].rule", "estimated rule cost exceeds budget", "maxItems"},
			},
			"rule on a schema without a type of its items": {
				spec: `{"type":"object","properties":{"x":{"type":"array"}}}`,
				want: []string{"properties[x].items", "must be specified"},
			},
			"default that its schema forbids": {
				spec: `{"type":"object","properties":{"size":{"type":"integer","default":"many"}}}`,
				want: []string{"properties[size].default", "must be of type integer"},
			},
			"name of another group": {
				spec: sized, change: func(d *apiextensionsv1.CustomResourceDefinition) { d.Name = "elsewhere.example.com" },
				want: []string{"metadata.name", `must be spec.names.plural+"."+spec.group`},
			},
			"two versions that are stored": {
				spec: sized, change: func(d *apiextensionsv1.CustomResourceDefinition) {
					d.Spec.Versions = append(d.Spec.Versions, *d.Spec.Versions[0].DeepCopy())
					d.Spec.Versions[1].Name = "v2"
				},
				want: []string{"spec.versions", "must have exactly one version marked as storage version"},
			},
			"group of Kubernetes without its approval": {
				spec: sized, change: func(d *apiextensionsv1.CustomResourceDefinition) {
					d.Spec.Group, d.Name = "bad.k8s.io", "bads.bad.k8s.io"
				},
				want: []string{"api-approved.kubernetes.io"},
			},
		} {
			d := definition(t, "bad.example.com", "bads", "Bad", tc.spec)
			if tc.change != nil {
				tc.change(d)
			}
			_, err := all.Create(t.Context(), d, metav1.CreateOptions{})
			refused(t, name, err, http.StatusUnprocessableEntity, tc.want...)
		}
	})

	t.Run("names that others have", func(t *testing.T) {
		d := definition(t, "good.example.com", "gadgets", "Widget", sized)
		d.Spec.Names.ShortNames = []string{"widgets"}
		if _, err := all.Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.waitCondition(t, d.Name, apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionFalse, "ListKindConflict", `"WidgetList" is already in use`)
		c.waitCondition(t, d.Name, apiextensionsv1.Established, apiextensionsv1.ConditionFalse, "NotAccepted", "not all names are accepted")
		c.want(t, "/apis/good.example.com/v1/namespaces/default/gadgets", http.StatusNotFound)
		c.mustHaveObject(t, widgets, "before", 1)

		// What was in the way goes, and the definition is taken by itself.
		names := []byte(`{"spec":{"names":{"kind":"Gadget","listKind":"GadgetList","singular":"gadget","shortNames":["gd"]}}}`)
		if _, err := all.Patch(t.Context(), d.Name, types.MergePatchType, names, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		c.waitCondition(t, d.Name, apiextensionsv1.Established, apiextensionsv1.ConditionTrue, "InitialNamesAccepted", "")
		framework.Eventually(t, patience, func() error { return c.check(t, "/apis/good.example.com/v1/namespaces/default/gadgets", http.StatusOK) })
	})

	t.Run("stored version that is taken away", func(t *testing.T) {
		c.define(t, definition(t, "stored.example.com", "boxes", "Box", sized, "v2"))
		first := schema.GroupVersionResource{Group: "stored.example.com", Version: "v1", Resource: "boxes"}
		second := schema.GroupVersionResource{Group: "stored.example.com", Version: "v2", Resource: "boxes"}
		if err := c.create(t, first, "Box", "a", 1); err != nil {
			t.Fatal(err)
		}
		without := []byte(`[{"op":"replace","path":"/spec/versions/1/storage","value":true},{"op":"remove","path":"/spec/versions/0"}]`)
		_, err := all.Patch(t.Context(), "boxes.stored.example.com", types.JSONPatchType, without, metav1.PatchOptions{})
		refused(t, "taking it away", err, http.StatusUnprocessableEntity, `status.storedVersions[0]: Invalid value: "v1": missing from spec.versions`)
		c.mustHaveObject(t, first, "a", 1)
		c.mustHaveObject(t, second, "a", 1)
	})
}

// convertible defines a kind whose versions a webhook converts, with one object.
func convertible(t *testing.T, c *clients, hook *admissiontest.Webhook) (first, second schema.GroupVersionResource) {
	t.Helper()
	d := definition(t, "converted.example.com", "tools", "Tool", sized, "v2")
	to := hook.ByURL("/convert")
	d.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: to.URL, CABundle: to.CABundle},
			ConversionReviewVersions: []string{"v1"},
		},
	}
	d.Spec.PreserveUnknownFields = false
	c.define(t, d)
	first = schema.GroupVersionResource{Group: "converted.example.com", Version: "v1", Resource: "tools"}
	second = schema.GroupVersionResource{Group: "converted.example.com", Version: "v2", Resource: "tools"}
	if err := c.create(t, first, "Tool", "before", 1); err != nil {
		t.Fatal(err)
	}
	return first, second
}

// conversionWebhookIsGone reads and writes the version that is stored as if nothing were, and the other one not at all.
func conversionWebhookIsGone(t *testing.T, a *annex) {
	c := a.clients
	down := admissiontest.Start(t, admissiontest.Allow)
	down.Stop()
	first, second := convertible(t, c, down)
	c.mustHaveObject(t, first, "before", 1)
	if err := c.create(t, first, "Tool", "during", 2); err != nil {
		t.Errorf("writing the version that is stored: %v", err)
	}
	refusal := []string{"conversion webhook for converted.example.com/v1, Kind=Tool failed", "connection refused"}
	_, err := c.dynamic.Resource(second).Namespace("default").Get(t.Context(), "before", metav1.GetOptions{})
	refused(t, "reading the other version", err, http.StatusInternalServerError, refusal...)
	_, err = c.dynamic.Resource(second).Namespace("default").List(t.Context(), metav1.ListOptions{})
	refused(t, "listing the other version", err, http.StatusInternalServerError, refusal...)
	refused(t, "writing the other version", c.create(t, second, "Tool", "lost", 3), http.StatusInternalServerError,
		"conversion webhook for converted.example.com/v2, Kind=Tool failed")
	c.want(t, "/openapi/v3/apis/converted.example.com/v2", http.StatusOK)
	c.want(t, "/apis/good.example.com/v1/namespaces/default/widgets", http.StatusOK)

	// Nobody converts, and both versions are the same: that is as good as a webhook that is back.
	none := []byte(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
	if _, err := c.definitions.ApiextensionsV1().CustomResourceDefinitions().Patch(t.Context(), "tools.converted.example.com", types.MergePatchType, none, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		return c.check(t, "/apis/converted.example.com/v2/namespaces/default/tools", http.StatusOK, `"before"`, `"during"`)
	})
}
