// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// resetFields tells server-side apply which fields of a request an endpoint ignores, so that nobody comes to own them.
type resetFields map[fieldpath.APIVersion]fieldpath.Filter

// GetResetFieldsFilter implements rest.ResetFieldsFilterStrategy.
func (r resetFields) GetResetFieldsFilter() map[fieldpath.APIVersion]fieldpath.Filter { return r }

// allBut ignores the given field of the root.
func allBut(version schema.GroupVersion, name string) resetFields {
	ignored := fieldpath.NewSet(fieldpath.MakePathOrDie(name))
	return resetFields{fieldpath.APIVersion(version.String()): fieldpath.NewExcludeSetFilter(ignored)}
}

// only ignores everything but the given paths.
func only(version schema.GroupVersion, paths [][]string) resetFields {
	matchers := make([]*fieldpath.SetMatcher, 0, len(paths))
	for _, path := range paths {
		elements := make([]any, 0, len(path))
		for _, element := range path {
			elements = append(elements, element)
		}
		matchers = append(matchers, fieldpath.MakePrefixMatcherOrDie(elements...))
	}
	return resetFields{fieldpath.APIVersion(version.String()): fieldpath.NewIncludeMatcherFilter(matchers...)}
}
