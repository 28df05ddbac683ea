// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func TestCustomResources(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	createWidgetDefinition(t, h.Admin())
	objects := anything(t, h.Admin()).Resource(widgets).Namespace("default")
	widget := func(size int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget",
			"metadata": map[string]any{"name": "w", "namespace": "default"},
			"spec":     map[string]any{"size": size},
		}}
	}
	eventually(t, func() error {
		_, err := objects.Create(t.Context(), widget(1), metav1.CreateOptions{})
		return err
	})
	if _, err := objects.Apply(t.Context(), "w", widget(2), metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Error(err)
	}
	if _, err := objects.Apply(t.Context(), "w", widget(-1), metav1.ApplyOptions{FieldManager: "test", Force: true}); !apierrors.IsInvalid(err) {
		t.Errorf("applying what the schema forbids: got %v, want 422", err)
	}
	apiService := services(t, h.Admin()).ApiregistrationV1().APIServices()
	eventually(t, func() error {
		_, err := apiService.Get(t.Context(), "v1.example.com", metav1.GetOptions{})
		return err
	})
	// What kubectl explain reads.
	eventually(t, func() error {
		document, err := core(t, h.Admin()).Discovery().RESTClient().Get().AbsPath("/openapi/v3/apis/example.com/v1").DoRaw(t.Context())
		if err == nil && !strings.Contains(string(document), "how large the widget is") {
			err = fmt.Errorf("the kind's OpenAPI is not published: %.200s", document)
		}
		return err
	})

	h.Stop()
	h.Start()
	// The aggregator must not have taken the definition's APIService for a leftover of an earlier version.
	objects = anything(t, h.Admin()).Resource(widgets).Namespace("default")
	eventually(t, func() error {
		_, err := objects.Get(t.Context(), "w", metav1.GetOptions{})
		return err
	})
	if err := definitions(t, h.Admin()).ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apiService = services(t, h.Admin()).ApiregistrationV1().APIServices()
	eventually(t, func() error {
		_, err := apiService.Get(t.Context(), "v1.example.com", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the APIService of a deleted definition is still there: %w", err)
	})
}

func createWidgetDefinition(t *testing.T, config *rest.Config) {
	t.Helper()
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	least := 0.0
	root := object(map[string]apiextensionsv1.JSONSchemaProps{
		"spec": object(map[string]apiextensionsv1.JSONSchemaProps{
			"size": {Type: "integer", Minimum: &least, Description: "how large the widget is"},
		}),
	})
	_, err := definitions(t, config).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: widgets.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: widgets.Version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &root},
			}},
		},
	}, metav1.CreateOptions{})
	// Tests on the host that they share define the same.
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}
