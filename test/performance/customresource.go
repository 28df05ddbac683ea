// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// createCRD makes a custom resource with the schema of ClusterClaim.
func createCRD(ctx context.Context, config *rest.Config) error {
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "clusterclaims." + customGroup},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: customGroup, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusterclaims", Singular: "clusterclaim", Kind: "ClusterClaim", ListKind: "ClusterClaimList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: claimSchema()},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}, metav1.CreateOptions{})
	return err
}

func claimSchema() *apiextensionsv1.JSONSchemaProps {
	one, most := int64(1), int64(131072)
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	condition := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"type": text, "status": text, "reason": text, "message": text,
		"lastTransitionTime": {Type: "string", Format: "date-time"}, "observedGeneration": {Type: "integer", Format: "int64"},
	}, Required: []string{"type", "status", "reason", "message", "lastTransitionTime"}}
	byType := "map"
	return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Required: []string{"value"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"value": {Type: "string", MinLength: &one, MaxLength: &most},
		}},
		"status": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"observedGeneration": {Type: "integer", Format: "int64"},
			"conditions": {Type: "array", XListType: &byType, XListMapKeys: []string{"type"},
				Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition}},
		}},
	}}
}
