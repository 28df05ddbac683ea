// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// simulated is what clients would be answered by a server that is killed again and again. A request is done at some moment between its
// call and its answer; those that are under way when the server is killed are done or not, and not answered.
func simulated(seed uint64, kills, clients, keys int) record {
	random := rand.New(rand.NewPCG(seed, 0))
	seen := spell{}
	r := record{}
	objects, version, clock := map[string]state{}, int64(0), int64(0)
	for range kills {
		under := make([]*operation, clients)
		last := make([]map[string]item, clients)
		for i := range last {
			last[i] = map[string]item{}
		}
		for range 40 * clients {
			clock++
			i := random.IntN(clients)
			if under[i] == nil {
				o := operation{client: i, verb: pick(random), name: fmt.Sprint("k", random.IntN(keys)), call: clock}
				switch o.verb {
				case list, stale:
					o.verb = get
				case update, removeOne:
					o.version = last[i][o.name].Version
				}
				if o.verb.writes() {
					o.value = fmt.Sprintf("%d-%d", clock, i)
				}
				under[i] = &o
				continue
			}
			o := under[i]
			if o.outcome == "" {
				before := objects[o.name]
				next, out := do(before, *o)
				o.outcome = out
				if out == done && o.verb.writes() {
					version++
					next.version = version
					kind := modified
					if !next.exists {
						kind = deleted
					} else if !before.exists {
						kind = added
					}
					told := item{o.name, next.value, version}
					if !next.exists {
						told.Value = before.value
					}
					seen.events, seen.reached = append(seen.events, event{kind, told}), version
					objects[o.name] = next
				}
				if out == done && o.verb != remove && o.verb != removeOne {
					o.shown = item{o.name, next.value, next.version}
					last[i][o.name] = o.shown
				}
				continue
			}
			o.answer, under[i] = clock, nil
			r.operations = append(r.operations, *o)
		}
		for _, o := range under {
			if o != nil {
				o.outcome, o.shown, o.answer = unknown, item{}, never
				r.operations = append(r.operations, *o)
			}
		}
	}
	r.watchers = [][]spell{{seen}}
	return r
}

// TestManyUnansweredRequests has as many of them as a long row of kills leaves.
func TestManyUnansweredRequests(t *testing.T) {
	t.Parallel()
	r := simulated(1, 200, 16, 16)
	for _, watchers := range []bool{true, false} {
		if !watchers {
			r.watchers = nil
		}
		began := time.Now()
		if found := slices.Concat(r.linearizable(), r.forward(), r.watched()); len(found) > 0 {
			t.Errorf("with watchers: %t: %d violations where there are none, the first: %s", watchers, len(found), found[0])
		}
		t.Logf("with watchers: %t: %d requests in %s", watchers, len(r.operations), time.Since(began))
	}
}
