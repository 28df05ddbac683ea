// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// table renders objects for kubectl get: NAME, the kind's columns, AGE, then the columns of -o wide.
type table[T Object] struct {
	columns []Column[T]
}

func (t table[T]) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	if list, err := meta.ListAccessor(object); err == nil {
		out.ResourceVersion = list.GetResourceVersion()
		out.Continue = list.GetContinue()
		out.RemainingItemCount = list.GetRemainingItemCount()
	} else if single, err := meta.CommonAccessor(object); err == nil {
		out.ResourceVersion = single.GetResourceVersion()
	}
	if options, ok := tableOptions.(*metav1.TableOptions); !ok || !options.NoHeaders {
		out.ColumnDefinitions = t.definitions()
	}
	var err error
	out.Rows, err = metatable.MetaToTableRow(object, t.cells)
	return out, err
}

func (t table[T]) definitions() []metav1.TableColumnDefinition {
	metadata := metav1.ObjectMeta{}.SwaggerDoc()
	name := metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metadata["name"]}
	age := metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metadata["creationTimestamp"]}
	out := append([]metav1.TableColumnDefinition{name}, t.describe(0)...)
	return append(append(out, age), t.describe(1)...)
}

func (t table[T]) describe(priority int32) []metav1.TableColumnDefinition {
	var out []metav1.TableColumnDefinition
	for _, column := range t.columns {
		if column.Priority != priority {
			continue
		}
		definition := metav1.TableColumnDefinition{Name: column.Name, Type: column.Type, Description: column.Description, Priority: priority}
		if definition.Type == "" {
			definition.Type = "string"
		}
		out = append(out, definition)
	}
	return out
}

func (t table[T]) cells(o runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
	obj := o.(T)
	out := append([]any{name}, t.values(obj, 0)...)
	return append(append(out, age), t.values(obj, 1)...), nil
}

func (t table[T]) values(obj T, priority int32) []any {
	var out []any
	for _, column := range t.columns {
		if column.Priority == priority {
			out = append(out, column.Of(obj))
		}
	}
	return out
}
