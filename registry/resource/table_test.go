// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func fieldsOf(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Field)
	}
	return out
}

func TestTableHasAnOrder(t *testing.T) {
	t.Parallel()
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for _, name := range []string{"b", "a", "d", "c"} {
		list.Items = append(list.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	byName := func(a, b *corev1.ConfigMap) int { return cmp.Compare(a.Name, b.Name) }
	for name, tc := range map[string]struct {
		order func(a, b *corev1.ConfigMap) int
		want  []any
	}{
		"of its kind":     {byName, []any{"a", "b", "c", "d"}},
		"or that of keys": {nil, []any{"b", "a", "d", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := table[*corev1.ConfigMap]{order: tc.order}.ConvertToTable(t.Context(), list.DeepCopy(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []any
			for _, row := range out.Rows {
				got = append(got, row.Cells[0])
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" || out.ResourceVersion != "7" {
				t.Errorf("rows at version %s (-want,+got):\n%s", out.ResourceVersion, diff)
			}
		})
	}
}
