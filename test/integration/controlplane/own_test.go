// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/kube-annex/annex/registry/native"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/server/controlplane"
)

var gadgets = schema.GroupVersionResource{Group: "own.example.com", Version: "v1", Resource: "gadgets"}

// Gadget is a kind that is made for no serialization but JSON. Its name is that of the kind.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Size              int64 `json:"size,omitempty"`
}

type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gadget `json:"items"`
}

func (g *Gadget) DeepCopyObject() runtime.Object {
	out := *g
	g.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (l *GadgetList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = nil
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Gadget))
	}
	return &out
}

func (Gadget) OpenAPIModelName() string { return "com.example.own.v1.Gadget" }

func (GadgetList) OpenAPIModelName() string { return "com.example.own.v1.GadgetList" }

func ownGroup() native.Group {
	kind := resource.Kind[*Gadget]{
		Plural: "gadgets", Singular: "gadget",
		NewList:        func() runtime.Object { return &GadgetList{} },
		Validate:       validateGadget,
		ValidateUpdate: func(g, _ *Gadget) field.ErrorList { return validateGadget(g) },
	}
	return native.Group{Version: gadgets.GroupVersion(), Kinds: []resource.Served{kind.Served()}, Definitions: func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		meta := metav1.ObjectMeta{}.OpenAPIModelName()
		object := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
			"apiVersion": {SchemaProps: spec.SchemaProps{Type: []string{"string"}}},
			"kind":       {SchemaProps: spec.SchemaProps{Type: []string{"string"}}},
			"metadata":   {SchemaProps: spec.SchemaProps{Ref: ref(meta)}},
			"size":       {SchemaProps: spec.SchemaProps{Type: []string{"integer"}, Format: "int64"}},
		}}}
		list := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
		return map[string]common.OpenAPIDefinition{
			Gadget{}.OpenAPIModelName():     {Schema: object, Dependencies: []string{meta}},
			GadgetList{}.OpenAPIModelName(): {Schema: list},
		}
	}}
}

func validateGadget(g *Gadget) field.ErrorList {
	if g.Size < 0 {
		return field.ErrorList{field.Invalid(field.NewPath("size"), g.Size, "must not be negative")}
	}
	return nil
}

// useGadgets has a control plane serve the kind as any other.
func useGadgets(t *testing.T, h *host) {
	t.Helper()
	objects := anything(t, h.Admin()).Resource(gadgets).Namespace("default")
	made := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "own.example.com/v1", "kind": "Gadget", "metadata": map[string]any{"name": "a"}, "size": int64(1),
	}}
	if _, err := objects.Apply(t.Context(), "a", made, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	made.Object["size"] = int64(-1)
	if _, err := objects.Apply(t.Context(), "a", made, metav1.ApplyOptions{FieldManager: "test"}); !apierrors.IsInvalid(err) {
		t.Errorf("an object that the kind does not accept: got %v, want 422", err)
	}
	raw, err := h.Backend.Client.KV.Get(t.Context(), "/registry/own.example.com/gadgets/default/a")
	if err != nil || len(raw.Kvs) != 1 || !strings.HasPrefix(string(raw.Kvs[0].Value), `{"kind":"Gadget"`) {
		t.Errorf("the object is stored as %v, %v", raw, err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "owned-"}}
	stored, err := objects.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "own.example.com/v1", Kind: "Gadget", Name: "a", UID: stored.GetUID()}}
	maps := core(t, h.Admin()).CoreV1().ConfigMaps("default")
	if owned, err = maps.Create(t.Context(), owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err = objects.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, failure := maps.Get(t.Context(), owned.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(failure) {
			return nil
		}
		return errors.Join(fmt.Errorf("%s is still there", owned.Name), failure)
	})
}

func TestKindsOfOnesOwn(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) { o.AdditionalGroups = []native.Group{ownGroup()} })
	useGadgets(t, h)
	if _, err := services(t, h.Admin()).ApiregistrationV1().APIServices().Get(t.Context(), "v1.own.example.com", metav1.GetOptions{}); err != nil {
		t.Errorf("the group has no APIService: %v", err)
	}
}

func TestWithoutCustomResourcesAndAggregator(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		adjust func(*controlplane.Options)
		absent []string
	}{
		"without custom resources": {func(o *controlplane.Options) { o.DisableCustomResources = true }, []string{"apiextensions.k8s.io"}},
		"without the aggregator":   {func(o *controlplane.Options) { o.DisableAggregator = true }, []string{"apiregistration.k8s.io"}},
		"without both": {func(o *controlplane.Options) { o.DisableCustomResources, o.DisableAggregator = true, true }, []string{
			"apiextensions.k8s.io", "apiregistration.k8s.io",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, func(o *controlplane.Options) {
				o.AdditionalGroups = []native.Group{ownGroup()}
				tc.adjust(o)
			})
			useGadgets(t, h)
			client := core(t, h.Admin())
			documents := openAPI(t, client)
			if !strings.Contains(documents, `"com.example.own.v1.Gadget"`) {
				t.Error("the own kind is not in OpenAPI")
			}
			for _, group := range tc.absent {
				for _, found := range served(t, client) {
					if found.Group == group {
						t.Errorf("%s is in discovery", found)
					}
				}
				if strings.Contains(documents, `"group":"`+group+`"`) {
					t.Errorf("%s is in OpenAPI", group)
				}
			}
			if err := client.CoreV1().Namespaces().Delete(t.Context(), "kube-system", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("deleting a system namespace: got %v, want 403", err)
			}
		})
	}
}

func TestGroupsOfOnesOwnHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	o := newHost(t, nil).RawOptions()
	taken := ownGroup()
	taken.Version.Group = "coordination.k8s.io"
	o.AdditionalGroups = []native.Group{taken}
	if _, err := o.Complete(); err == nil || !strings.Contains(err.Error(), `the group "coordination.k8s.io" is there already`) {
		t.Errorf("got %v, want an error that names the group", err)
	}
}
