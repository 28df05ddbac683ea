// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"cmp"
	"fmt"
	"slices"
)

// Violations returns all that must not have happened.
func (r Record) Violations() []string {
	return slices.Concat(r.unexpected(), r.linearizable(), r.forward(), r.watched())
}

// Unexpected are the answers that nothing should be given.
func (r Record) unexpected() (violations []string) {
	for _, o := range r.Operations {
		if o.Outcome == Unexpected {
			violations = append(violations, o.String())
		}
	}
	return violations
}

// forward finds writes, lists and reads with quorum that came after the answer to a write and are older than it, whatever the object.
func (r Record) forward() (violations []string) {
	answered := slices.Clone(r.Operations)
	answered = slices.DeleteFunc(answered, func(o Operation) bool { return o.Outcome != Done || o.at() == 0 || o.Verb == Get || o.Verb == Stale })
	slices.SortFunc(answered, func(a, b Operation) int { return cmp.Compare(a.Answer, b.Answer) })
	asked := slices.Clone(answered)
	slices.SortFunc(asked, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
	var newest Operation
	next := 0
	for _, o := range asked {
		for ; next < len(answered) && answered[next].Answer < o.Call; next++ {
			if answered[next].at() > newest.at() {
				newest = answered[next]
			}
		}
		// A list may be as old as what was last written.
		if o.at() < newest.at() || o.Verb.Writes() && o.at() == newest.at() && newest.Verb.Writes() {
			violations = append(violations, fmt.Sprintf("resource versions went back:\n  %s\n  %s", newest, o))
		}
	}
	return violations
}

// at is the version that an answer is from.
func (o Operation) at() int64 {
	if o.Verb == List {
		return o.Listed
	}
	return o.Shown.Version
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
func (r Record) changes() (all map[int64]change, violations []string) {
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
	for _, o := range r.Operations {
		if o.Outcome != Done {
			continue
		}
		if o.Shown.Version != 0 {
			note(o.Shown.Version, change{name: o.Shown.Name, value: o.Shown.Value, by: o.String()})
		}
		for _, found := range o.Items {
			note(found.Version, change{name: found.Name, value: found.Value, by: fmt.Sprintf("a list of client %d at %d", o.Client, o.Listed)})
		}
	}
	for i, spells := range r.Watchers {
		for _, s := range spells {
			for _, found := range s.Items {
				note(found.Version, change{name: found.Name, value: found.Value, by: fmt.Sprintf("the list of watcher %d at %d", i, s.From)})
			}
			for _, e := range s.Events {
				if e.Kind == Bookmark {
					continue
				}
				note(e.Version, change{name: e.Name, value: e.Value, deleted: e.Kind == deleted, by: fmt.Sprintf("watcher %d", i)})
			}
		}
	}
	return all, violations
}
