// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// table renders objects for kubectl get: NAME, the kind's columns and AGE, then the columns of -o wide.
type table[T Object] struct {
	columns []Column[T]
	age     Age
	order   func(a, b T) int
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
	if t.order != nil && meta.IsListType(object) {
		return out, t.addInOrder(out, object)
	}
	var err error
	out.Rows, err = metatable.MetaToTableRow(object, t.cells)
	return out, err
}

// addInOrder adds a row for each object of a list.
func (t table[T]) addInOrder(out *metav1.Table, list runtime.Object) error {
	objects, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	slices.SortStableFunc(objects, func(a, b runtime.Object) int { return t.order(a.(T), b.(T)) })
	for _, object := range objects {
		rows, err := metatable.MetaToTableRow(object, t.cells)
		if err != nil {
			return err
		}
		out.Rows = append(out.Rows, rows...)
	}
	return nil
}

func (t table[T]) definitions() []metav1.TableColumnDefinition {
	metadata := metav1.ObjectMeta{}.SwaggerDoc()
	name := metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: metadata["name"]}
	age := metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: metadata["creationTimestamp"]}
	return arrange(t.age, name, age, t.describe(0), t.describe(1))
}

// arrange puts the columns of a table, or the cells of a row, into their order.
func arrange[C any](place Age, name, age C, narrow, wide []C) []C {
	out := []C{name}
	if place == AgeBeforeColumns {
		out = append(out, age)
	}
	out = append(out, narrow...)
	if place == AgeAfterColumns {
		out = append(out, age)
	}
	return append(out, wide...)
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
	return arrange[any](t.age, name, age, t.values(obj, 0), t.values(obj, 1)), nil
}

func (t table[T]) values(obj T, priority int32) []any {
	var out []any
	for _, column := range t.columns {
		if column.Priority == priority {
			out = append(out, printable(column.Of(obj)))
		}
	}
	return out
}

// printable escapes the control characters of a text that a terminal would obey. kubectl escapes few of them.
func printable(cell any) any {
	text, ok := cell.(string)
	if !ok || !strings.ContainsFunc(text, isTerminalControl) {
		return cell
	}
	var out strings.Builder
	for _, r := range text {
		if isTerminalControl(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func isTerminalControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
