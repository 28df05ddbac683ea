// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestAuthorizeJudgesValidObjects lets Authorize refuse the data of every object.
func TestAuthorizeJudgesValidObjects(t *testing.T) {
	t.Parallel()
	refuse := func(_ context.Context, _, old *corev1.ConfigMap) field.ErrorList {
		if old == nil {
			return field.ErrorList{field.Forbidden(field.NewPath("data"), "create")}
		}
		return field.ErrorList{field.Forbidden(field.NewPath("data"), "update of "+old.Name)}
	}
	for name, tc := range map[string]struct {
		authorize      func(ctx context.Context, obj, old *corev1.ConfigMap) field.ErrorList
		finalizers     []string
		create, update []string
	}{
		"valid object":   {refuse, nil, []string{"data: Forbidden: create"}, []string{"data: Forbidden: update of a"}},
		"invalid object": {refuse, []string{"mine"}, []string{"metadata.finalizers[0]"}, []string{"metadata.finalizers[0]"}},
		"nobody to ask":  {nil, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := strategy[*corev1.ConfigMap]{kind: Kind[*corev1.ConfigMap]{Scope: Namespaced, QualifiedFinalizers: true, Authorize: tc.authorize}}
			obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", Finalizers: tc.finalizers}}
			texts := func(errs field.ErrorList) []string {
				var out []string
				for _, err := range errs {
					if err.Type == field.ErrorTypeForbidden {
						out = append(out, err.Error())
					} else {
						out = append(out, err.Field)
					}
				}
				return out
			}
			if diff := cmp.Diff(tc.create, texts(s.Validate(t.Context(), obj))); diff != "" {
				t.Errorf("create (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.update, texts(s.ValidateUpdate(t.Context(), obj, obj))); diff != "" {
				t.Errorf("update (-want,+got):\n%s", diff)
			}
		})
	}
}
