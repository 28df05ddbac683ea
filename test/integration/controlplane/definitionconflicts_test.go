// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// wantNotEstablished waits until the names of a definition are refused, and wants no version of its kind to be served by it.
func wantNotEstablished(t *testing.T, h *host, definition *apiextensionsv1.CustomResourceDefinition, words string) {
	t.Helper()
	client := definitions(t, h.Admin()).ApiextensionsV1().CustomResourceDefinitions()
	if _, err := client.Create(t.Context(), definition, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		current, err := client.Get(t.Context(), definition.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, kind := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
			condition := apihelpers.FindCRDCondition(current, kind)
			if condition == nil || condition.Status != apiextensionsv1.ConditionFalse || !strings.Contains(condition.Message, words) {
				return fmt.Errorf("the conditions are %+v, want %s False with %q", current.Status.Conditions, kind, words)
			}
		}
		return nil
	})
	waitServed(t, h.Admin(), schema.GroupVersionResource{Group: definition.Spec.Group, Version: "v2", Resource: definition.Spec.Names.Plural}, false)
}

// newDefinition is one with version v2 alone.
func newDefinition(group, plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	keep := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a test"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v2", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep},
				},
			}},
		},
	}
}

func TestADefinitionOfAResourceThatAnotherServerHasIsNotEstablished(t *testing.T) {
	t.Parallel()
	h, _, register, _ := startBehind(t)
	register()
	wantNotEstablished(t, h, newDefinition("example.com", "gears", "Gear"), "gears.example.com are served by the extension server of the APIService v1.example.com")
	wantNotEstablished(t, h, newDefinition("coordination.k8s.io", "leases", "Lease"), "leases.coordination.k8s.io are served by a built-in kind")
	// Another resource of the group is no conflict.
	createDefinition(t, h.Admin(), "wheels", "v2")
}

// TestANamespaceIsEmptiedInEachServerOfAResource has a definition that was established before an extension server came with the same resource.
func TestANamespaceIsEmptiedInEachServerOfAResource(t *testing.T) {
	t.Parallel()
	h, back, register, _ := startBehind(t)
	createDefinition(t, h.Admin(), "gears", "v2")
	register()
	e := h.emptying()
	ns := e.fresh(t, "doomed")
	if _, err := core(t, back.Admin()).CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns.Name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, resource := range gears {
		e.put(t, resource, "Gear", ns.Name, "a")
	}
	emptier(t, h)
	e.remove(t, ns.Name)
	e.waitGone(t, ns)
	for _, resource := range gears {
		if left := e.count(t, resource, ns.Name); left > 0 {
			t.Errorf("%d objects of %s outlived their namespace", left, resource.Version)
		}
	}
}
