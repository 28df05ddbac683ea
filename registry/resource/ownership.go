// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/kube-annex/annex/apis/gatedfield"
)

// disown takes a gated field, wherever it is and with all below it, from every manager, and forgets managers that are left with
// nothing. Managed fields are computed from what the request says, before any of it is dropped.
func disown(obj Object, f gatedfield.Field) error {
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range obj.GetManagedFields() {
		keep, err := subtract(&entry, f)
		if err != nil {
			return fmt.Errorf("managed fields of %s: %w", entry.Manager, err)
		}
		if keep {
			kept = append(kept, entry)
		}
	}
	obj.SetManagedFields(kept)
	return nil
}

// subtract takes a gated field from one entry, and tells whether anything is left of it. Entries that have none of it
// stay as they are, to the byte.
func subtract(entry *metav1.ManagedFieldsEntry, f gatedfield.Field) (keep bool, err error) {
	if entry.FieldsV1 == nil {
		return true, nil
	}
	owned := &fieldpath.Set{}
	if err = owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return false, err
	}
	dropped := fieldpath.NewSet()
	for p := range owned.All() {
		if f.Covers(elements(p)) {
			dropped.Insert(p.Copy())
		}
	}
	if dropped.Empty() {
		return true, nil
	}
	left := owned.Difference(dropped)
	if left.Empty() {
		return false, nil
	}
	raw, err := left.ToJSON()
	if err != nil {
		return false, err
	}
	// The entry is a copy, but what it points to belongs to the object and maybe to the cache that it came from.
	entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return true, nil
}

// elements returns a path in the form of gated fields.
func elements(p fieldpath.Path) []string {
	out := make([]string, 0, len(p))
	for i := range p {
		if name := p[i].FieldName; name != nil {
			out = append(out, *name)
		} else {
			out = append(out, gatedfield.EachItem)
		}
	}
	return out
}
