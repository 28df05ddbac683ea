// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkTimeout is far longer than checking one object takes.
const checkTimeout = 10 * time.Second

// state is what one object is.
type state struct {
	exists bool
	value  string
	// version is 0 where a write showed none. newest is the newest that is known.
	version, newest int64
	// creations and deletions are how many of those without an answer were done, and over is after all that was answered.
	creations, deletions int
	over                 bool
}

// over is what happens then. Requests that were not answered, and not done, come after it; it is no use to look for other places.
const over verb = "over"

// model is how one object behaves, one request after the other.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(from, input, _ any) (bool, any) { return step(from.(state), input.(operation)) },
		DescribeOperation: func(input, _ any) string {
			return input.(operation).String()
		},
	}
}

// step says whether a request may be answered so, and what the object is afterwards.
func step(from state, o operation) (bool, state) {
	if o.verb == over || from.over {
		from.over = true
		return o.verb == over || o.answer == never, from
	}
	next, out := do(from, o)
	switch {
	case o.outcome == unknown && o.verb == remove:
		// One is as good as another, so there is but one order in which to look at them.
		next.deletions++
		return out == done && o.turn == next.deletions, next
	case o.outcome == unknown && o.verb == create:
		next.creations++
		return out == done && o.turn == next.creations, next
	case o.outcome == unknown:
		return out == done, next
	case o.outcome != out:
		return false, from
	case out != done || o.verb == remove || o.verb == removeOne:
		return true, next
	case o.verb == get && from.version != 0:
		return from.value == o.shown.Value && from.version == o.shown.Version, from
	}
	next.version, next.newest = o.shown.Version, o.shown.Version
	return next.value == o.shown.Value && o.shown.Version > from.newest, next
}

// do does one request alone. What it writes has a version that is not known until somebody is shown it.
func do(from state, o operation) (state, outcome) {
	if o.verb == create {
		if from.exists {
			return from, exists
		}
		return from.with(o.value), done
	}
	if !from.exists {
		return from, notFound
	}
	if (o.verb == update || o.verb == removeOne) && from.version != o.version {
		return from, conflict
	}
	switch o.verb {
	case update, patch:
		return from.with(o.value), done
	case remove, removeOne:
		from.exists, from.value, from.version = false, "", 0
	}
	return from, done
}

// with is the object with another value, whose version is not known.
func (s state) with(value string) state {
	s.exists, s.value, s.version = true, value, 0
	return s
}

// linearizable finds objects for whose answers there is no order of the requests.
func (r record) linearizable() (violations []string) {
	seen := r.seen()
	end := int64(0)
	for _, o := range r.operations {
		end = max(end, o.call+1)
		if o.answer != never {
			end = max(end, o.answer+1)
		}
	}
	for name, operations := range r.perObject() {
		history := []porcupine.Operation{{Input: operation{verb: over, call: end, answer: end}, Call: end, Return: end}}
		deletions, creations := 0, 0
		slices.SortFunc(operations, func(a, b operation) int { return cmp.Compare(a.call, b.call) })
		for _, o := range operations {
			switch version := seen[o.value]; {
			case o.outcome != unknown:
			case o.verb == remove:
				deletions++
				o.turn = deletions
			case o.verb == removeOne:
			case version != 0:
				// Somebody was shown its value: it was done, and its version tells when.
				o.outcome, o.shown = done, item{Name: name, Value: o.value, Version: version}
			case o.verb == create:
				creations++
				o.turn = creations
			default:
				// It explains nothing that others were told.
				continue
			}
			history = append(history, porcupine.Operation{ClientId: o.client, Input: o, Call: o.call, Return: o.answer})
		}
		switch porcupine.CheckOperationsTimeout(model(), history, checkTimeout) {
		case porcupine.Illegal:
			violations = append(violations, fmt.Sprintf("%s: no order of the requests explains the answers, among them:\n%s", name, tell(operations, stuck(history))))
		case porcupine.Unknown:
			violations = append(violations, fmt.Sprintf("%s: %d requests were not checked within %s", name, len(operations), checkTimeout))
		}
	}
	slices.Sort(violations)
	return violations
}

// stuck is when the first request was answered that the longest order has no place for.
func stuck(operations []porcupine.Operation) int64 {
	_, info := porcupine.CheckOperationsVerbose(model(), operations, checkTimeout)
	placed := map[string]bool{}
	longest := 0
	for _, partial := range info.PartialLinearizationsOperations() {
		for _, order := range partial {
			if len(order) <= longest {
				continue
			}
			longest = len(order)
			clear(placed)
			for _, o := range order {
				placed[o.Input.(operation).String()] = true
			}
		}
	}
	at := int64(never)
	for _, o := range operations {
		if !placed[o.Input.(operation).String()] {
			at = min(at, o.Return)
		}
	}
	return at
}

// perObject are the operations that say something of each object. A list is a read of all.
func (r record) perObject() map[string][]operation {
	all := map[string][]operation{}
	for _, o := range r.operations {
		if o.verb != list && o.name != "" {
			all[o.name] = nil
		}
	}
	for _, o := range r.operations {
		switch {
		case o.verb == stale, o.outcome == conflict, o.outcome == unsent, o.outcome == refused, o.outcome == unexpected:
			// A conflict is always possible and changes nothing.
		case o.outcome == unknown && !o.verb.writes():
		case o.verb == list:
			for name := range all {
				read := o
				read.verb, read.name, read.items, read.outcome = get, name, nil, notFound
				for _, found := range o.items {
					if found.Name == name {
						read.shown, read.outcome = found, done
					}
				}
				all[name] = append(all[name], read)
			}
		default:
			all[o.name] = append(all[o.name], o)
		}
	}
	return all
}

// seen are the values that somebody was shown, and their versions.
func (r record) seen() map[string]int64 {
	values := map[string]int64{}
	all, _ := r.changes()
	for version, what := range all {
		if !what.deleted {
			values[what.value] = version
		}
	}
	return values
}

// shownOperations is how many operations are printed on either side of a violation.
const shownOperations = 25

// tell writes down for people what was done around a moment.
func tell(operations []operation, at int64) string {
	slices.SortFunc(operations, func(a, b operation) int { return cmp.Compare(a.call, b.call) })
	middle, _ := slices.BinarySearchFunc(operations, at, func(o operation, at int64) int { return cmp.Compare(o.call, at) })
	var lines []string
	for _, o := range operations[max(0, middle-shownOperations):min(len(operations), middle+shownOperations)] {
		lines = append(lines, "  "+o.String())
	}
	return strings.Join(lines, "\n")
}
