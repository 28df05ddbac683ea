// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"cmp"
	"fmt"
	"slices"
)

// forward finds writes, lists and reads with quorum that came after the answer to a write and are older than it, whatever the object.
func (r record) forward() (violations []string) {
	answered := slices.Clone(r.operations)
	answered = slices.DeleteFunc(answered, func(o operation) bool { return o.outcome != done || o.at() == 0 || o.verb == get || o.verb == stale })
	slices.SortFunc(answered, func(a, b operation) int { return cmp.Compare(a.answer, b.answer) })
	asked := slices.Clone(answered)
	slices.SortFunc(asked, func(a, b operation) int { return cmp.Compare(a.call, b.call) })
	var newest operation
	next := 0
	for _, o := range asked {
		for ; next < len(answered) && answered[next].answer < o.call; next++ {
			if answered[next].at() > newest.at() {
				newest = answered[next]
			}
		}
		// A list may be as old as what was last written.
		if o.at() < newest.at() || o.verb.writes() && o.at() == newest.at() && newest.verb.writes() {
			violations = append(violations, fmt.Sprintf("resource versions went back:\n  %s\n  %s", newest, o))
		}
	}
	return violations
}

// at is the version that an answer is from.
func (o operation) at() int64 {
	if o.verb == list {
		return o.listed
	}
	return o.shown.Version
}

// change is what was made at a version.
type change struct {
	name, value string
	deleted     bool
	// by is who told of it.
	by string
}

func (c change) same(other change) bool {
	return c.name == other.name && c.value == other.value && c.deleted == other.deleted
}

// changes are all that anybody knows of, by version, and what was told differently.
func (r record) changes() (all map[int64]change, violations []string) {
	all = map[int64]change{}
	note := func(version int64, c change) {
		before, known := all[version]
		if !known {
			all[version] = c
		} else if !before.same(c) {
			violations = append(violations, fmt.Sprintf("version %d is %s=%q (deleted: %t) for %s, and %s=%q (deleted: %t) for %s",
				version, before.name, before.value, before.deleted, before.by, c.name, c.value, c.deleted, c.by))
		}
	}
	for _, o := range r.operations {
		if o.outcome != done {
			continue
		}
		if o.shown.Version != 0 {
			note(o.shown.Version, change{name: o.shown.Name, value: o.shown.Value, by: o.String()})
		}
		for _, found := range o.items {
			note(found.Version, change{name: found.Name, value: found.Value, by: fmt.Sprintf("a list of client %d at %d", o.client, o.listed)})
		}
	}
	for i, spells := range r.watchers {
		for _, s := range spells {
			for _, found := range s.items {
				note(found.Version, change{name: found.Name, value: found.Value, by: fmt.Sprintf("the list of watcher %d at %d", i, s.from)})
			}
			for _, e := range s.events {
				if e.kind == bookmark {
					continue
				}
				note(e.Version, change{name: e.Name, value: e.Value, deleted: e.kind == deleted, by: fmt.Sprintf("watcher %d", i)})
			}
		}
	}
	return all, violations
}
