// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Reset fields tell server-side apply which fields of a request an endpoint ignores, so that nobody comes to own them.

// ignoredFields are named one by one.
type ignoredFields map[fieldpath.APIVersion]*fieldpath.Set

// GetResetFields implements rest.ResetFieldsStrategy.
func (f ignoredFields) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set { return f }

// allBut ignores the given field of the root.
func allBut(version schema.GroupVersion, name string) ignoredFields {
	return ignoredFields{fieldpath.APIVersion(version.String()): fieldpath.NewSet(fieldpath.MakePathOrDie(name))}
}

// takenFields name what is not ignored.
type takenFields map[fieldpath.APIVersion]fieldpath.Filter

// GetResetFieldsFilter implements rest.ResetFieldsFilterStrategy.
func (f takenFields) GetResetFieldsFilter() map[fieldpath.APIVersion]fieldpath.Filter { return f }

// only ignores everything but the given paths.
func only(version schema.GroupVersion, paths [][]string) takenFields {
	matchers := make([]*fieldpath.SetMatcher, 0, len(paths))
	for _, path := range paths {
		elements := make([]any, 0, len(path))
		for _, element := range path {
			elements = append(elements, element)
		}
		matchers = append(matchers, fieldpath.MakePrefixMatcherOrDie(elements...))
	}
	return takenFields{fieldpath.APIVersion(version.String()): fieldpath.NewIncludeMatcherFilter(matchers...)}
}
