// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"cmp"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
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

func TestTablesKeepTheMetadataOfLists(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object runtime.Object
		want   metav1.ListMeta
	}{
		"list": {
			&corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next", RemainingItemCount: ptr.To[int64](3)}},
			metav1.ListMeta{ResourceVersion: "7", Continue: "next", RemainingItemCount: ptr.To[int64](3)},
		},
		"object": {&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "8"}}, metav1.ListMeta{ResourceVersion: "8"}},
	} {
		out, err := table[*corev1.ConfigMap]{}.ConvertToTable(t.Context(), tc.object, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(tc.want, out.ListMeta); diff != "" {
			t.Errorf("metadata of the table of one %s (-want,+got):\n%s", name, diff)
		}
	}
}

func TestTableColumnsHaveAnOrder(t *testing.T) {
	t.Parallel()
	columns := []Column[*corev1.ConfigMap]{
		{Name: "Wide", Priority: 1, Of: func(*corev1.ConfigMap) any { return "wide" }},
		{Name: "Narrow", Of: func(*corev1.ConfigMap) any { return "narrow" }},
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}} // Without a time of creation its age is <unknown>.
	for name, tc := range map[string]struct {
		age   Age
		names []string
		cells []any
	}{
		"age after the columns":  {AgeAfterColumns, []string{"Name", "Narrow", "Age", "Wide"}, []any{"a", "narrow", "<unknown>", "wide"}},
		"age before the columns": {AgeBeforeColumns, []string{"Name", "Age", "Narrow", "Wide"}, []any{"a", "<unknown>", "narrow", "wide"}},
	} {
		out, err := table[*corev1.ConfigMap]{columns: columns, age: tc.age}.ConvertToTable(t.Context(), object, nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, column := range out.ColumnDefinitions {
			names = append(names, column.Name)
		}
		if diff := gocmp.Diff(tc.names, names) + gocmp.Diff(tc.cells, out.Rows[0].Cells); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", name, diff)
		}
	}
}

func TestTablesHaveNoControlCharacters(t *testing.T) {
	t.Parallel()
	values := map[string]any{"plain": "ünï\tcode", "number": int64(3), "evil": "a\x1b[2J\u009b31m\x7f\r"}
	columns := []Column[*corev1.ConfigMap]{{Name: "Value", Of: func(c *corev1.ConfigMap) any { return values[c.Name] }}}
	for name, want := range map[string]any{"plain": "ünï\tcode", "number": int64(3), "evil": `a\u001b[2J\u009b31m\u007f\u000d`} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		out, err := table[*corev1.ConfigMap]{columns: columns}.ConvertToTable(t.Context(), object, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Rows[0].Cells[1]; got != want {
			t.Errorf("%s: the cell is %q, want %q", name, got, want)
		}
	}
}
