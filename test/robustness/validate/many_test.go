// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// simulated is what clients would be answered by a server that is killed again and again. A request is done at some moment between its
// call and its answer; those that are under way when the server is killed are done or not, and not answered.
func simulated(seed uint64, kills, clients, keys int) Record {
	random := rand.New(rand.NewPCG(seed, 0))
	// Reads and writes are about as frequent.
	verbs := []Verb{Create, Create, Update, Patch, Patch, Remove, RemoveOne, Get, Get, Get, Get}
	seen := Spell{}
	r := Record{}
	objects, version, clock := map[string]state{}, int64(0), int64(0)
	for range kills {
		under := make([]*Operation, clients)
		last := make([]map[string]Item, clients)
		for i := range last {
			last[i] = map[string]Item{}
		}
		for range 40 * clients {
			clock++
			i := random.IntN(clients)
			if under[i] == nil {
				o := Operation{Client: i, Verb: verbs[random.IntN(len(verbs))], Name: fmt.Sprint("k", random.IntN(keys)), Call: clock}
				if o.Verb == Update || o.Verb == RemoveOne {
					o.Version = last[i][o.Name].Version
				}
				if o.Verb.Writes() {
					o.Value = fmt.Sprintf("%d-%d", clock, i)
				}
				under[i] = &o
				continue
			}
			o := under[i]
			if o.Outcome == "" {
				before := objects[o.Name]
				next, out := do(before, *o)
				o.Outcome = out
				if out == Done && o.Verb.Writes() {
					version++
					next.version = version
					kind := modified
					if !next.exists {
						kind = deleted
					} else if !before.exists {
						kind = added
					}
					told := Item{o.Name, next.value, version}
					if !next.exists {
						told.Value = before.value
					}
					seen.Events, seen.Reached = append(seen.Events, Event{kind, told}), version
					objects[o.Name] = next
				}
				if out == Done && o.Verb != Remove && o.Verb != RemoveOne {
					o.Shown = Item{o.Name, next.value, next.version}
					last[i][o.Name] = o.Shown
				}
				continue
			}
			o.Answer, under[i] = clock, nil
			r.Operations = append(r.Operations, *o)
		}
		for _, o := range under {
			if o != nil {
				o.Outcome, o.Shown, o.Answer = Unknown, Item{}, Never
				r.Operations = append(r.Operations, *o)
			}
		}
	}
	r.Watchers = [][]Spell{{seen}}
	return r
}

// TestManyUnansweredRequests has as many of them as a long row of kills leaves.
func TestManyUnansweredRequests(t *testing.T) {
	t.Parallel()
	r := simulated(1, 200, 16, 16)
	for _, watchers := range []bool{true, false} {
		if !watchers {
			r.Watchers = nil
		}
		began := time.Now()
		if found := r.Violations(); len(found) > 0 {
			t.Errorf("with watchers: %t: %d violations where there are none, the first: %s", watchers, len(found), found[0])
		}
		t.Logf("with watchers: %t: %d requests in %s", watchers, len(r.Operations), time.Since(began))
	}
}
