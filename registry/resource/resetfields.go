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

// allBut ignores the given fields of the root.
func allBut(version schema.GroupVersion, names ...string) ignoredFields {
	set := fieldpath.NewSet()
	for _, name := range names {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return ignoredFields{fieldpath.APIVersion(version.String()): set}
}

// takenFields name what is not ignored.
type takenFields map[fieldpath.APIVersion]fieldpath.Filter

// GetResetFieldsFilter implements rest.ResetFieldsFilterStrategy.
func (f takenFields) GetResetFieldsFilter() map[fieldpath.APIVersion]fieldpath.Filter { return f }

// only ignores everything but the given paths, and below them what is excepted.
func only(version schema.GroupVersion, paths, except [][]string) takenFields {
	matchers := make([]*fieldpath.SetMatcher, 0, len(paths))
	for _, path := range paths {
		matchers = append(matchers, fieldpath.MakePrefixMatcherOrDie(anySlice(path)...))
	}
	filter := fieldpath.NewIncludeMatcherFilter(matchers...)
	if len(except) > 0 {
		set := fieldpath.NewSet()
		for _, path := range except {
			set.Insert(fieldpath.MakePathOrDie(anySlice(path)...))
		}
		filter = bothFilters{filter, fieldpath.NewExcludeSetFilter(set)}
	}
	return takenFields{fieldpath.APIVersion(version.String()): filter}
}

// bothFilters keeps what both keep.
type bothFilters [2]fieldpath.Filter

// Filter implements fieldpath.Filter.
func (f bothFilters) Filter(set *fieldpath.Set) *fieldpath.Set { return f[1].Filter(f[0].Filter(set)) }

func anySlice(path []string) []any {
	out := make([]any, 0, len(path))
	for _, element := range path {
		out = append(out, element)
	}
	return out
}
