// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// attributes returns what label and field selectors of a kind can match.
func attributes[T Object](kind Kind[T]) storage.AttrFunc {
	return func(o runtime.Object) (labels.Set, fields.Set, error) {
		obj, ok := o.(T)
		if !ok {
			return nil, nil, fmt.Errorf("selecting %s: got a %T", kind.Plural, o)
		}
		selectable := make(fields.Set, len(kind.SelectableFields)+2)
		selectable["metadata.name"] = obj.GetName()
		if kind.Scope == Namespaced {
			selectable["metadata.namespace"] = obj.GetNamespace()
		}
		for name, of := range kind.SelectableFields {
			selectable[name] = of(obj)
		}
		return obj.GetLabels(), selectable, nil
	}
}
