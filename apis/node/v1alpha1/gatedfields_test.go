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
			Gate: "NodeBalloonReclaimPolicy", Kind: schema.GroupVersionKind{Group: "node.k8s.io", Version: "v1alpha1", Kind: "NodeBalloon"}, Path: []string{"spec", "reclaimPolicy"},
			WhenOff: "Drop", Model: "com.github.kube-annex.annex.apis.node.v1alpha1.NodeBalloonSpec", Property: "reclaimPolicy",
		},
	}
	if diff := cmp.Diff(want, GatedFields(), cmpopts.IgnoreFields(gatedfield.Field{}, "IsSet", "Clear")); diff != "" {
		t.Errorf("gated fields (-want,+got):\n%s", diff)
	}
}
