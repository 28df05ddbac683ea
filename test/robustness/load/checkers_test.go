// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// at is an operation on the object a that was under way from one moment to another.
func at(call, answer int64, v verb, value string, version int64) operation {
	return operation{verb: v, name: "a", value: value, call: call, answer: answer, outcome: done, shown: item{"a", value, version}}
}

func ended(o operation, how outcome) operation {
	o.outcome, o.shown = how, item{}
	if how == unknown {
		o.answer = never
	}
	return o
}

func naming(o operation, version int64) operation {
	o.version = version
	return o
}

func listing(call, answer, version int64, items ...item) operation {
	return operation{verb: list, call: call, answer: answer, outcome: done, listed: version, items: items}
}

func TestWhatOperationsMayShow(t *testing.T) {
	t.Parallel()
	made := at(0, 1, create, "one", 5)
	for name, tc := range map[string]struct {
		operations []operation
		want       string
	}{
		"a read of what was written":   {[]operation{made, at(2, 3, get, "one", 5)}, ""},
		"a lost write":                 {[]operation{made, ended(at(2, 3, get, "", 0), notFound)}, "no order"},
		"a lost write, in a list":      {[]operation{made, listing(2, 3, 9)}, "no order"},
		"a list before the write":      {[]operation{at(0, 9, create, "one", 5), listing(2, 3, 4)}, ""},
		"a stale read":                 {[]operation{made, at(2, 3, patch, "two", 6), at(4, 5, get, "one", 5)}, "no order"},
		"a stale read from a cache":    {[]operation{made, at(2, 3, patch, "two", 6), at(4, 5, stale, "one", 5)}, ""},
		"a cache that makes things up": {[]operation{made, at(4, 5, stale, "two", 5)}, "version 5 is"},
		"a write without an answer, done": {
			[]operation{made, ended(at(2, 3, patch, "two", 0), unknown), at(4, 5, get, "two", 6)}, "",
		},
		"the same, not done":  {[]operation{made, ended(at(2, 3, patch, "two", 0), unknown), at(4, 5, get, "one", 5)}, ""},
		"the same, done late": {[]operation{made, ended(at(2, 3, patch, "two", 0), unknown), at(4, 5, get, "one", 5), at(6, 7, get, "two", 6)}, ""},
		"the same, done and undone": {
			[]operation{made, ended(at(2, 3, patch, "two", 0), unknown), at(4, 5, get, "two", 6), at(6, 7, get, "one", 5)}, "no order",
		},
		"a write without an answer that explains a refusal": {
			[]operation{ended(at(2, 3, create, "one", 0), unknown), ended(at(4, 5, create, "two", 0), exists)}, "",
		},
		"a refusal without a reason":       {[]operation{ended(at(4, 5, create, "two", 0), exists)}, "no order"},
		"a deletion without an answer":     {[]operation{made, ended(at(2, 3, remove, "", 0), unknown), ended(at(4, 5, get, "", 0), notFound)}, ""},
		"an object that comes back":        {[]operation{made, ended(at(2, 3, remove, "", 0), done), at(4, 5, get, "one", 5)}, "no order"},
		"two updates of one version":       {[]operation{made, naming(at(2, 9, update, "two", 6), 5), naming(at(2, 9, update, "three", 7), 5)}, "no order"},
		"an update and a conflict":         {[]operation{made, naming(at(2, 9, update, "two", 6), 5), ended(naming(at(2, 9, update, "three", 0), 5), conflict)}, ""},
		"the deletion of an older version": {[]operation{made, at(2, 3, patch, "two", 6), ended(naming(at(4, 5, removeOne, "", 0), 5), done)}, "no order"},
		"an answer with somebody else's value": {
			[]operation{made, {verb: patch, name: "a", value: "two", call: 2, answer: 3, outcome: done, shown: item{"a", "three", 6}}}, "no order",
		},
		"versions that go back":            {[]operation{made, at(2, 3, remove, "", 0), at(4, 5, create, "two", 4)}, "went back"},
		"a list that is older than writes": {[]operation{made, {verb: list, call: 2, answer: 3, outcome: done, listed: 4, items: []item{{"a", "one", 5}}}}, "went back"},
		"an answer that nobody expects":    {[]operation{{verb: get, name: "a", outcome: unexpected, err: errors.New("no")}}, "unexpected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := record{operations: tc.operations}
			found := strings.Join(append(append(r.unexpected(), r.linearizable()...), append(r.forward(), r.watched()...)...), "\n")
			if tc.want == "" && found != "" || !strings.Contains(found, tc.want) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
}

func told(kind, value string, version int64) event { return event{kind, item{"a", value, version}} }

func TestWhatWatchersMaySee(t *testing.T) {
	t.Parallel()
	good := []event{told(added, "one", 5), told(modified, "two", 6), told(bookmark, "", 7), told(deleted, "two", 8), told(added, "three", 10)}
	without := func(i int) []event { return append(append([]event(nil), good[:i]...), good[i+1:]...) }
	swapped := []event{good[1], good[0], good[2], good[3], good[4]}
	written := []operation{
		at(0, 1, create, "one", 5), at(2, 3, patch, "two", 6), ended(at(4, 5, remove, "", 0), done), at(6, 7, create, "three", 10),
	}
	final := []item{{"a", "three", 10}}
	for name, tc := range map[string]struct {
		events []event
		more   []spell
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
		"a new list for what was gone":       {events: good[:1], more: []spell{{items: []item{{"a", "two", 6}}, from: 6, reached: 12, events: good[2:]}}},
		"a new list that is older":           {events: good, more: []spell{{items: []item{{"a", "two", 6}}, from: 6, reached: 12, events: good[2:]}}, want: "the next list is at 6"},
		"a new list with what is newer":      {events: good[:1], more: []spell{{items: []item{{"a", "two", 6}}, from: 5, reached: 12, events: good[2:]}}, want: "a list at 5 has"},
		"a new list with what was not there": {events: good[:3], more: []spell{{items: []item{{"a", "other", 4}}, from: 8, reached: 12, events: good[4:]}}, want: "while it is true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reached := int64(12)
			if tc.more != nil && tc.more[0].from < 7 && len(tc.events) == 1 {
				reached = 5
			}
			if len(tc.events) == 3 {
				reached = 7
			}
			spells := append([]spell{{from: 4, reached: reached, events: tc.events}}, tc.more...)
			r := record{operations: written, watchers: [][]spell{spells, {{from: 4, reached: 12, events: good}}}, final: final, ended: 11}
			found := strings.Join(r.watched(), "\n")
			if tc.want == "" && found != "" || !strings.Contains(found, tc.want) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
	behind := record{operations: written, watchers: [][]spell{{{from: 4, reached: 8, events: good[:4]}}}, final: final, ended: 11}
	if found := strings.Join(behind.watched(), "\n"); !strings.Contains(found, "it did not reach 11") {
		t.Errorf("of a watcher that stopped early: found %q", found)
	}
	alone := record{operations: written[:2], watchers: [][]spell{{{from: 4, reached: 12, events: good[:2]}}}, ended: 11}
	if found := strings.Join(alone.watched(), "\n"); !strings.Contains(found, "in the end it has a=\"two\" at 6") {
		t.Errorf("of a watcher that all watchers' lost deletion kept in the dark: found %q", found)
	}
}

func TestWhatErrorsMean(t *testing.T) {
	t.Parallel()
	maps := schema.GroupResource{Resource: "configmaps"}
	for name, tc := range map[string]struct {
		err  error
		verb verb
		want outcome
	}{
		"a broken connection":         {errors.New("EOF"), patch, unknown},
		"an object that is not there": {apierrors.NewNotFound(maps, "a"), get, notFound},
		"a resource that is not":      {apierrors.NewGenericServerResponse(404, "get", maps, "", "", 0, true), get, refused},
		"an object that is there":     {apierrors.NewAlreadyExists(maps, "a"), create, exists},
		"a conflict":                  {apierrors.NewConflict(maps, "a", errors.New("changed")), update, conflict},
		"a timeout":                   {apierrors.NewTimeoutError("slow", 1), update, unknown},
		"a server error":              {apierrors.NewInternalError(errors.New("broken")), update, unknown},
		"a bad request":               {apierrors.NewBadRequest("what?"), update, unexpected},
		"no rights":                   {apierrors.NewForbidden(maps, "a", errors.New("no")), update, refused},
	} {
		if got := judge(tc.err, &operation{verb: tc.verb, name: "a"}); got != tc.want {
			t.Errorf("%s is %q, want %q", name, got, tc.want)
		}
	}
}
