// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkTimeout is far longer than checking a round takes.
const checkTimeout = 20 * time.Second

// check looks for an order in which the requests of a round could have been done.
func (p *Proof) check(round int, first Pair, history []porcupine.Operation) {
	// A conflict is always possible and changes nothing.
	history = slices.DeleteFunc(history, func(o porcupine.Operation) bool { return o.Output.(Answer).Outcome == Conflict })
	switch linearizable(first, history) {
	case porcupine.Illegal:
		p.add(&p.impossible, fmt.Sprintf("round %d: no order of the requests explains the answers; %s", round, tell(first, history)))
	case porcupine.Unknown:
		p.add(&p.broken, fmt.Sprintf("round %d was not checked within %s; %s", round, checkTimeout, tell(first, history)))
	}
}

// linearizable looks without the requests that may not have been done at first, then with one of them, and so on: most of them
// were not, and each makes for many more orders.
func linearizable(first Pair, history []porcupine.Operation) porcupine.CheckResult {
	var sure, maybe []porcupine.Operation
	for _, o := range history {
		if o.Return == never {
			maybe = append(maybe, o)
		} else {
			sure = append(sure, o)
		}
	}
	for n := range maybe {
		if porcupine.CheckOperationsTimeout(Model(first), slices.Concat(sure, maybe[:n]), checkTimeout) == porcupine.Ok {
			return porcupine.Ok
		}
	}
	return porcupine.CheckOperationsTimeout(Model(first), history, checkTimeout)
}

// tell writes a round down for people.
func tell(first Pair, history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	lines := []string{fmt.Sprintf("before it there was %s", first)}
	for _, o := range history {
		took := "…"
		if o.Return != never {
			took = time.Duration(o.Return - o.Call).Round(time.Microsecond).String()
		}
		lines = append(lines, fmt.Sprintf("  client %d at %s for %s: %s", o.ClientId, time.Duration(o.Call).Round(time.Microsecond), took,
			describe(o.Input.(Request), o.Output.(Answer))))
	}
	return strings.Join(lines, "\n")
}
