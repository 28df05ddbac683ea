// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"maps"
	"slices"
)

// watched finds events that are missing, come twice, in another order or out of nothing.
func (r record) watched() (violations []string) {
	all, violations := r.changes()
	versions := slices.Sorted(maps.Keys(all))
	for i, spells := range r.watchers {
		violated := func(format string, args ...any) {
			violations = append(violations, fmt.Sprintf("watcher %d: ", i)+fmt.Sprintf(format, args...))
		}
		reached := int64(0)
		for _, s := range spells {
			if s.from < reached {
				violated("it had reached %d, and the next list is at %d", reached, s.from)
			}
			reached = s.reached
			told := s.replay(violated)
			first, _ := slices.BinarySearch(versions, s.from+1)
			for _, version := range versions[first:] {
				if version > s.reached {
					break
				}
				if what := all[version]; !told[version] {
					violated("it went from %d to %d, and was not told of %s=%q (deleted: %t) at %d, which is known from %s",
						s.from, s.reached, what.name, what.value, what.deleted, version, what.by)
				}
			}
		}
		if len(spells) > 0 && r.ended > 0 {
			r.compare(spells[len(spells)-1], violated)
		}
	}
	return violations
}

// replay looks at one event after the other. It returns the versions that were told.
func (s spell) replay(violated func(string, ...any)) map[int64]bool {
	there := map[string]bool{}
	for _, found := range s.items {
		there[found.Name] = true
		if found.Version > s.from {
			violated("a list at %d has %s", s.from, found)
		}
	}
	told := map[int64]bool{}
	last := s.from
	for _, e := range s.events {
		if e.kind == bookmark {
			if e.Version < last {
				violated("%s came after %d", e, last)
			}
			last = e.Version
			continue
		}
		switch {
		case told[e.Version]:
			violated("%s came twice", e)
		case e.Version <= last:
			violated("%s came after %d", e, last)
		}
		told[e.Version] = true
		last = max(last, e.Version)
		if there[e.Name] == (e.kind == added) {
			violated("%s came while it is %t that the object was there", e, there[e.Name])
		}
		there[e.Name] = e.kind != deleted
	}
	return told
}

// compare holds what a watcher made of its events against a list.
func (r record) compare(s spell, violated func(string, ...any)) {
	if s.from > r.ended {
		return
	}
	if s.reached < r.ended {
		violated("it did not reach %d, the version at the end, but %d", r.ended, s.reached)
		return
	}
	objects := map[string]item{}
	for _, found := range s.items {
		objects[found.Name] = found
	}
	for _, e := range s.events {
		switch {
		case e.Version > r.ended, e.kind == bookmark:
		case e.kind == deleted:
			delete(objects, e.Name)
		default:
			objects[e.Name] = e.item
		}
	}
	want := map[string]item{}
	for _, found := range r.final {
		want[found.Name] = found
	}
	for _, name := range slices.Sorted(maps.Keys(maps.Collect(both(objects, want)))) {
		if objects[name] != want[name] {
			violated("in the end it has %s, and a list at %d has %s", objects[name], r.ended, want[name])
		}
	}
}

// both are the entries of two maps.
func both(a, b map[string]item) func(func(string, item) bool) {
	return func(yield func(string, item) bool) {
		for _, m := range []map[string]item{a, b} {
			for k, v := range m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}
