// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	applyv1alpha1 "github.com/kube-annex/annex/generated/applyconfiguration/features/v1alpha1"
)

// TestApplyConfigurationsKnowTheListMaps would fail if applyconfiguration-gen had not found our types in the schema, which
// it does by names that it makes up from import paths; it then takes every type for untyped, and says nothing.
func TestApplyConfigurationsKnowTheListMaps(t *testing.T) {
	t.Parallel()
	feature := &v1alpha1.Feature{
		ObjectMeta: metav1.ObjectMeta{
			Name: "NodeSwap", Namespace: "kube-system",
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "mine", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "features.k8s.io/v1alpha1",
				Subresource: "status", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:uses":{"k:{\"component\":\"kubelet\",\"value\":\"Enabled\",\"version\":\"v1\"}":{".":{},"f:component":{},"f:version":{},"f:value":{}}}}}`),
			}},
		},
		Status: v1alpha1.FeatureStatus{Uses: []v1alpha1.Use{
			{Component: "kubelet", Version: "v1", Value: v1alpha1.ValueEnabled},
			{Component: "kubelet", Version: "v2", Value: v1alpha1.ValueEnabled},
		}},
	}
	got, err := applyv1alpha1.ExtractFeatureStatus(feature, "mine")
	if err != nil {
		t.Fatal(err)
	}
	want := applyv1alpha1.Feature("NodeSwap", "kube-system").WithStatus(applyv1alpha1.FeatureStatus().WithUses(
		applyv1alpha1.Use().WithComponent("kubelet").WithVersion("v1").WithValue(v1alpha1.ValueEnabled)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("extracted (-want,+got):\n%s", diff)
	}
}
