// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

func TestReservationsCanBeSelectedByField(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]bool{
		"metadata.name":   true,
		"spec.clusterSet": true,
		"spec.clusterID":  true,
		"spec.clusterUID": true,
		"spec.claimUID":   false,
		"status.owner":    false,
		"":                false,
	} {
		gotLabel, gotValue, err := scheme.ConvertFieldLabel(SchemeGroupVersion.WithKind("ClusterIDReservation"), label, "x")
		if got := err == nil; got != want {
			t.Errorf("%q: got error %v, want selectable %v", label, err, want)
		}
		if err == nil && (gotLabel != label || gotValue != "x") {
			t.Errorf("%q: became %q=%q", label, gotLabel, gotValue)
		}
	}
}
