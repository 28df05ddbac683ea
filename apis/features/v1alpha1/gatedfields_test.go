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
			Gate: "FeatureCanary", Kind: schema.GroupVersionKind{Group: "features.k8s.io", Version: "v1alpha1", Kind: "Feature"}, Path: []string{"spec", "canary"},
			WhenOff: "Reject", Model: "com.github.kube-annex.annex.apis.features.v1alpha1.FeatureSpec", Property: "canary",
		},
	}
	if diff := cmp.Diff(want, GatedFields(), cmpopts.IgnoreFields(gatedfield.Field{}, "IsSet", "Clear")); diff != "" {
		t.Errorf("gated fields (-want,+got):\n%s", diff)
	}
}
