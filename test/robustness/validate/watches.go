// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"maps"
	"slices"
)

// watched finds events that are missing, come twice, in another order or out of nothing.
func (r Record) watched() (violations []string) {
	all, violations := r.changes()
	versions := slices.Sorted(maps.Keys(all))
	for i, spells := range r.Watchers {
		violated := func(format string, args ...any) {
			violations = append(violations, fmt.Sprintf("watcher %d: ", i)+fmt.Sprintf(format, args...))
		}
		reached := int64(0)
		for _, s := range spells {
			if s.From < reached {
				violated("it had reached %d, and the next list is at %d", reached, s.From)
			}
			reached = s.Reached
			told := s.replay(violated)
			first, _ := slices.BinarySearch(versions, s.From+1)
			for _, version := range versions[first:] {
				if version > s.Reached {
					break
				}
				if what := all[version]; !told[version] {
					violated("it went from %d to %d, and was not told of %s=%q (deleted: %t) at %d, which is known from %s",
						s.From, s.Reached, what.name, what.value, what.deleted, version, what.by)
				}
			}
		}
		if len(spells) > 0 && r.Ended > 0 {
			r.compare(spells[len(spells)-1], violated)
		}
	}
	return violations
}

// replay looks at one event after the other. It returns the versions that were told.
func (s Spell) replay(violated func(string, ...any)) map[int64]bool {
	there := map[string]bool{}
	for _, found := range s.Items {
		there[found.Name] = true
		if found.Version > s.From {
			violated("a list at %d has %s", s.From, found)
		}
	}
	told := map[int64]bool{}
	last := s.From
	for _, e := range s.Events {
		if e.Kind == Bookmark {
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
		if there[e.Name] == (e.Kind == added) {
			violated("%s came while it is %t that the object was there", e, there[e.Name])
		}
		there[e.Name] = e.Kind != deleted
	}
	return told
}

// compare holds what a watcher made of its events against a list.
func (r Record) compare(s Spell, violated func(string, ...any)) {
	if s.From > r.Ended {
		return
	}
	if s.Reached < r.Ended {
		violated("it did not reach %d, the version at the end, but %d", r.Ended, s.Reached)
		return
	}
	objects := map[string]Item{}
	for _, found := range s.Items {
		objects[found.Name] = found
	}
	for _, e := range s.Events {
		switch {
		case e.Version > r.Ended, e.Kind == Bookmark:
		case e.Kind == deleted:
			delete(objects, e.Name)
		default:
			objects[e.Name] = e.Item
		}
	}
	want := map[string]Item{}
	for _, found := range r.Final {
		want[found.Name] = found
	}
	for _, name := range slices.Sorted(maps.Keys(maps.Collect(both(objects, want)))) {
		if objects[name] != want[name] {
			violated("in the end it has %s, and a list at %d has %s", objects[name], r.Ended, want[name])
		}
	}
}

// both are the entries of two maps.
func both(a, b map[string]Item) func(func(string, Item) bool) {
	return func(yield func(string, Item) bool) {
		for _, m := range []map[string]Item{a, b} {
			for k, v := range m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}
