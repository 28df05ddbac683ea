// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFinalizersNeedADomain(t *testing.T) {
	t.Parallel()
	finalizers := []string{"example.com/a", "kubernetes", "foregroundDeletion", "mine", "Kubernetes"}
	for name, tc := range map[string]struct {
		qualified bool
		want      []string
	}{
		"where the kind says so": {true, []string{"metadata.finalizers[3]", "metadata.finalizers[4]"}},
		"not elsewhere":          {false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := strategy[*corev1.ConfigMap]{kind: Kind[*corev1.ConfigMap]{QualifiedFinalizers: tc.qualified}}
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Finalizers: finalizers}}
			created, updated := s.Validate(t.Context(), obj), s.ValidateUpdate(t.Context(), obj, obj)
			for verb, errs := range map[string][]string{"create": fieldsOf(created), "update": fieldsOf(updated)} {
				if diff := cmp.Diff(tc.want, errs); diff != "" {
					t.Errorf("%s (-want,+got):\n%s", verb, diff)
				}
			}
		})
	}
}
