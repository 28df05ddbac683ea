// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"errors"
	"strings"
	"testing"
)

// at is an operation on the object a that was under way from one moment to another.
func at(call, answer int64, v Verb, value string, version int64) Operation {
	return Operation{Verb: v, Name: "a", Value: value, Call: call, Answer: answer, Outcome: Done, Shown: Item{"a", value, version}}
}

func ended(o Operation, how Outcome) Operation {
	o.Outcome, o.Shown = how, Item{}
	if how == Unknown {
		o.Answer = Never
	}
	return o
}

func naming(o Operation, version int64) Operation {
	o.Version = version
	return o
}

func listing(call, answer, version int64, items ...Item) Operation {
	return Operation{Verb: List, Call: call, Answer: answer, Outcome: Done, Listed: version, Items: items}
}

func TestWhatOperationsMayShow(t *testing.T) {
	t.Parallel()
	made := at(0, 1, Create, "one", 5)
	for name, tc := range map[string]struct {
		operations []Operation
		want       string
	}{
		"a read of what was written":   {[]Operation{made, at(2, 3, Get, "one", 5)}, ""},
		"a lost write":                 {[]Operation{made, ended(at(2, 3, Get, "", 0), NotFound)}, "no order"},
		"a lost write, in a list":      {[]Operation{made, listing(2, 3, 9)}, "no order"},
		"a list before the write":      {[]Operation{at(0, 9, Create, "one", 5), listing(2, 3, 4)}, ""},
		"a stale read":                 {[]Operation{made, at(2, 3, Patch, "two", 6), at(4, 5, Get, "one", 5)}, "no order"},
		"a stale read from a cache":    {[]Operation{made, at(2, 3, Patch, "two", 6), at(4, 5, Stale, "one", 5)}, ""},
		"a cache that makes things up": {[]Operation{made, at(4, 5, Stale, "two", 5)}, "version 5 is"},
		"a write without an answer, done": {
			[]Operation{made, ended(at(2, 3, Patch, "two", 0), Unknown), at(4, 5, Get, "two", 6)}, "",
		},
		"the same, not done":  {[]Operation{made, ended(at(2, 3, Patch, "two", 0), Unknown), at(4, 5, Get, "one", 5)}, ""},
		"the same, done late": {[]Operation{made, ended(at(2, 3, Patch, "two", 0), Unknown), at(4, 5, Get, "one", 5), at(6, 7, Get, "two", 6)}, ""},
		"the same, done and undone": {
			[]Operation{made, ended(at(2, 3, Patch, "two", 0), Unknown), at(4, 5, Get, "two", 6), at(6, 7, Get, "one", 5)}, "no order",
		},
		"a write without an answer that explains a refusal": {
			[]Operation{ended(at(2, 3, Create, "one", 0), Unknown), ended(at(4, 5, Create, "two", 0), Exists)}, "",
		},
		"a refusal without a reason":       {[]Operation{ended(at(4, 5, Create, "two", 0), Exists)}, "no order"},
		"a deletion without an answer":     {[]Operation{made, ended(at(2, 3, Remove, "", 0), Unknown), ended(at(4, 5, Get, "", 0), NotFound)}, ""},
		"an object that comes back":        {[]Operation{made, ended(at(2, 3, Remove, "", 0), Done), at(4, 5, Get, "one", 5)}, "no order"},
		"two updates of one version":       {[]Operation{made, naming(at(2, 9, Update, "two", 6), 5), naming(at(2, 9, Update, "three", 7), 5)}, "no order"},
		"an update and a conflict":         {[]Operation{made, naming(at(2, 9, Update, "two", 6), 5), ended(naming(at(2, 9, Update, "three", 0), 5), Conflict)}, ""},
		"the deletion of an older version": {[]Operation{made, at(2, 3, Patch, "two", 6), ended(naming(at(4, 5, RemoveOne, "", 0), 5), Done)}, "no order"},
		"an answer with somebody else's value": {
			[]Operation{made, {Verb: Patch, Name: "a", Value: "two", Call: 2, Answer: 3, Outcome: Done, Shown: Item{"a", "three", 6}}}, "no order",
		},
		"versions that go back":            {[]Operation{made, at(2, 3, Remove, "", 0), at(4, 5, Create, "two", 4)}, "went back"},
		"a list that is older than writes": {[]Operation{made, {Verb: List, Call: 2, Answer: 3, Outcome: Done, Listed: 4, Items: []Item{{"a", "one", 5}}}}, "went back"},
		"an answer that nobody expects":    {[]Operation{{Verb: Get, Name: "a", Outcome: Unexpected, Err: errors.New("no")}}, "unexpected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Record{Operations: tc.operations}
			found := strings.Join(r.Violations(), "\n")
			if tc.want == "" && found != "" || !strings.Contains(found, tc.want) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
}

func told(kind, value string, version int64) Event { return Event{kind, Item{"a", value, version}} }

func TestWhatWatchersMaySee(t *testing.T) {
	t.Parallel()
	good := []Event{told(added, "one", 5), told(modified, "two", 6), told(Bookmark, "", 7), told(deleted, "two", 8), told(added, "three", 10)}
	without := func(i int) []Event { return append(append([]Event(nil), good[:i]...), good[i+1:]...) }
	swapped := []Event{good[1], good[0], good[2], good[3], good[4]}
	written := []Operation{
		at(0, 1, Create, "one", 5), at(2, 3, Patch, "two", 6), ended(at(4, 5, Remove, "", 0), Done), at(6, 7, Create, "three", 10),
	}
	final := []Item{{"a", "three", 10}}
	for name, tc := range map[string]struct {
		events []Event
		more   []Spell
		want   string
	}{
		"everything":                         {events: good},
		"a lost first event":                 {events: without(0), want: "was not told of"},
		"a lost change":                      {events: without(1), want: "was not told of"},
		"a lost deletion":                    {events: without(3), want: "while it is true that the object was there"},
		"a lost last event":                  {events: without(4), want: "was not told of"},
		"another order":                      {events: swapped, want: "came after 6"},
		"a duplicate":                        {events: append(good[:2:2], good[1:]...), want: "came twice"},
		"another value":                      {events: append(append(good[:1:1], told(modified, "lied", 6)), good[2:]...), want: "version 6 is"},
		"an event after its bookmark":        {events: append(good[:1:1], good[2], good[1], good[3], good[4]), want: "came after 7"},
		"an addition of what is there":       {events: append(append(good[:1:1], told(added, "two", 6)), good[2:]...), want: "while it is true"},
		"a new list for what was gone":       {events: good[:1], more: []Spell{{Items: []Item{{"a", "two", 6}}, From: 6, Reached: 12, Events: good[2:]}}},
		"a new list that is older":           {events: good, more: []Spell{{Items: []Item{{"a", "two", 6}}, From: 6, Reached: 12, Events: good[2:]}}, want: "the next list is at 6"},
		"a new list with what is newer":      {events: good[:1], more: []Spell{{Items: []Item{{"a", "two", 6}}, From: 5, Reached: 12, Events: good[2:]}}, want: "a list at 5 has"},
		"a new list with what was not there": {events: good[:3], more: []Spell{{Items: []Item{{"a", "other", 4}}, From: 8, Reached: 12, Events: good[4:]}}, want: "while it is true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := int64(12)
			if tc.more != nil && tc.more[0].From < 7 && len(tc.events) == 1 {
				reached = 5
			}
			if len(tc.events) == 3 {
				reached = 7
			}
			spells := append([]Spell{{From: 4, Reached: reached, Events: tc.events}}, tc.more...)
			r := Record{Operations: written, Watchers: [][]Spell{spells, {{From: 4, Reached: 12, Events: good}}}, Final: final, Ended: 11}
			found := strings.Join(r.watched(), "\n")
			if tc.want == "" && found != "" || !strings.Contains(found, tc.want) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
	behind := Record{Operations: written, Watchers: [][]Spell{{{From: 4, Reached: 8, Events: good[:4]}}}, Final: final, Ended: 11}
	if found := strings.Join(behind.watched(), "\n"); !strings.Contains(found, "it did not reach 11") {
		t.Errorf("of a watcher that stopped early: found %q", found)
	}
	alone := Record{Operations: written[:2], Watchers: [][]Spell{{{From: 4, Reached: 12, Events: good[:2]}}}, Ended: 11}
	if found := strings.Join(alone.watched(), "\n"); !strings.Contains(found, "in the end it has a=\"two\" at 6") {
		t.Errorf("of a watcher that all watchers' lost deletion kept in the dark: found %q", found)
	}
}
