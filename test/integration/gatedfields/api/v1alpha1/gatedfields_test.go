// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/apis/gatedfield"
)

func TestGatedFields(t *testing.T) {
	t.Parallel()
	want := []gatedfield.Field{
		{
			Gate: "WidgetColor", Kind: schema.GroupVersionKind{Group: "example.annex.test", Version: "v1alpha1", Kind: "Widget"}, Path: []string{"spec", "color"},
			WhenOff: "Drop", Model: "test.annex.example.v1alpha1.WidgetSpec", Property: "color",
		},
		{
			Gate: "WidgetMaterial", Kind: schema.GroupVersionKind{Group: "example.annex.test", Version: "v1alpha1", Kind: "Widget"}, Path: []string{"spec", "parts", "[]", "material"},
			WhenOff: "Drop", Model: "test.annex.example.v1alpha1.Part", Property: "material",
		},
		{
			Gate: "WidgetBolts", Kind: schema.GroupVersionKind{Group: "example.annex.test", Version: "v1alpha1", Kind: "Widget"}, Path: []string{"spec", "parts", "[]", "bolts"},
			WhenOff: "Reject", Model: "test.annex.example.v1alpha1.Part", Property: "bolts",
		},
		{
			Gate: "WidgetMaterial", Kind: schema.GroupVersionKind{Group: "example.annex.test", Version: "v1alpha1", Kind: "Widget"}, Path: []string{"spec", "labelsByZone", "{}", "note"},
			WhenOff: "Drop", Model: "test.annex.example.v1alpha1.Zone", Property: "note",
		},
		{
			Gate: "WidgetColor", Kind: schema.GroupVersionKind{Group: "example.annex.test", Version: "v1alpha1", Kind: "Widget"}, Path: []string{"status", "summary"},
			WhenOff: "Drop", Model: "test.annex.example.v1alpha1.WidgetStatus", Property: "summary",
		},
	}
	if diff := cmp.Diff(want, GatedFields(), cmpopts.IgnoreFields(gatedfield.Field{}, "IsSet", "Clear")); diff != "" {
		t.Errorf("gated fields (-want,+got):\n%s", diff)
	}
}
