// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

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
	// Version is 0 where a write showed none. newest is the newest that is known.
	version, newest int64
	// creations and deletions are how many of those without an answer were done, and over is after all that was answered.
	creations, deletions int
	over                 bool
}

// over is what happens then. Requests that were not answered, and not done, come after it; it is no use to look for other places.
const over Verb = "over"

// model is how one object behaves, one request after the other.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(from, input, _ any) (bool, any) { return step(from.(state), input.(Operation)) },
		DescribeOperation: func(input, _ any) string {
			return input.(Operation).String()
		},
	}
}

// step says whether a request may be answered so, and what the object is afterwards.
func step(from state, o Operation) (bool, state) {
	if o.Verb == over || from.over {
		from.over = true
		return o.Verb == over || o.Answer == Never, from
	}
	next, out := do(from, o)
	switch {
	case o.Outcome == Unknown && o.Verb == Remove:
		// One is as good as another, so there is but one order in which to look at them.
		next.deletions++
		return out == Done && o.turn == next.deletions, next
	case o.Outcome == Unknown && o.Verb == Create:
		next.creations++
		return out == Done && o.turn == next.creations, next
	case o.Outcome == Unknown:
		return out == Done, next
	case o.Outcome != out:
		return false, from
	case out != Done || o.Verb == Remove || o.Verb == RemoveOne:
		return true, next
	case o.Verb == Get && from.version != 0:
		return from.value == o.Shown.Value && from.version == o.Shown.Version, from
	}
	next.version, next.newest = o.Shown.Version, o.Shown.Version
	return next.value == o.Shown.Value && o.Shown.Version > from.newest, next
}

// do does one request alone. What it writes has a version that is not known until somebody is shown it.
func do(from state, o Operation) (state, Outcome) {
	if o.Verb == Create {
		if from.exists {
			return from, Exists
		}
		return from.with(o.Value), Done
	}
	if !from.exists {
		return from, NotFound
	}
	if (o.Verb == Update || o.Verb == RemoveOne) && from.version != o.Version {
		return from, Conflict
	}
	switch o.Verb {
	case Update, Patch:
		return from.with(o.Value), Done
	case Remove, RemoveOne:
		from.exists, from.value, from.version = false, "", 0
	}
	return from, Done
}

// with is the object with another value, whose version is not known.
func (s state) with(value string) state {
	s.exists, s.value, s.version = true, value, 0
	return s
}

// linearizable finds objects for whose answers there is no order of the requests.
func (r Record) linearizable() (violations []string) {
	seen := r.seen()
	end := int64(0)
	for _, o := range r.Operations {
		end = max(end, o.Call+1)
		if o.Answer != Never {
			end = max(end, o.Answer+1)
		}
	}
	for name, operations := range r.perObject() {
		history := []porcupine.Operation{{Input: Operation{Verb: over, Call: end, Answer: end}, Call: end, Return: end}}
		deletions, creations := 0, 0
		slices.SortFunc(operations, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
		for _, o := range operations {
			switch version := seen[o.Value]; {
			case o.Outcome != Unknown:
			case o.Verb == Remove:
				deletions++
				o.turn = deletions
			case o.Verb == RemoveOne:
			case version != 0:
				// Somebody was shown its value: it was done, and its version tells when.
				o.Outcome, o.Shown = Done, Item{Name: name, Value: o.Value, Version: version}
			case o.Verb == Create:
				creations++
				o.turn = creations
			default:
				// It explains nothing that others were told.
				continue
			}
			history = append(history, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.Call, Return: o.Answer})
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
				placed[o.Input.(Operation).String()] = true
			}
		}
	}
	at := int64(Never)
	for _, o := range operations {
		if !placed[o.Input.(Operation).String()] {
			at = min(at, o.Return)
		}
	}
	return at
}

// perObject are the operations that say something of each object. A list is a read of all.
func (r Record) perObject() map[string][]Operation {
	all := map[string][]Operation{}
	for _, o := range r.Operations {
		if o.Verb != List && o.Name != "" {
			all[o.Name] = nil
		}
	}
	for _, o := range r.Operations {
		switch {
		case o.Verb == Stale, o.Outcome == Conflict, o.Outcome == Unsent, o.Outcome == Refused, o.Outcome == Unexpected:
			// A conflict is always possible and changes nothing.
		case o.Outcome == Unknown && !o.Verb.Writes():
		case o.Verb == List:
			for name := range all {
				read := o
				read.Verb, read.Name, read.Items, read.Outcome = Get, name, nil, NotFound
				for _, found := range o.Items {
					if found.Name == name {
						read.Shown, read.Outcome = found, Done
					}
				}
				all[name] = append(all[name], read)
			}
		default:
			all[o.Name] = append(all[o.Name], o)
		}
	}
	return all
}

// seen are the values that somebody was shown, and their versions.
func (r Record) seen() map[string]int64 {
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
func tell(operations []Operation, at int64) string {
	slices.SortFunc(operations, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
	middle, _ := slices.BinarySearchFunc(operations, at, func(o Operation, at int64) int { return cmp.Compare(o.Call, at) })
	var lines []string
	for _, o := range operations[max(0, middle-shownOperations):min(len(operations), middle+shownOperations)] {
		lines = append(lines, "  "+o.String())
	}
	return strings.Join(lines, "\n")
}
