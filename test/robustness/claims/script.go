// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"math/rand/v2"
)

// chances are how often a verb is chosen, among the verbs of one side.
type chances []struct {
	verb  Verb
	often int
}

// renames are what half of the clients do to the id, and memberships what the others do to the set.
var (
	renames = chances{
		{create, 3}, {createHeld, 1}, {apply, 4}, {put, 4}, {mergePatch, 2}, {strategicPatch, 2}, {jsonPatch, 2}, {label, 1}, {writeStatus, 1},
		{hold, 1}, {release, 4}, {remove, 3}, {removeForeground, 1}, {removeVersion, 2}, {removeCollection, 2}, {get, 1}, {list, 1},
	}
	memberships = chances{
		{create, 5}, {createHeld, 1}, {apply, 3}, {put, 1}, {mergePatch, 1}, {label, 1}, {writeStatus, 1},
		{hold, 1}, {release, 4}, {remove, 4}, {removeForeground, 1}, {removeVersion, 1}, {removeCollection, 2}, {get, 1}, {list, 1},
	}
)

func (c chances) pick(random *rand.Rand) Verb {
	all := 0
	for _, choice := range c {
		all += choice.often
	}
	left := random.IntN(all)
	for _, choice := range c {
		if left -= choice.often; left < 0 {
			return choice.verb
		}
	}
	return list
}

// script is what a client does in a round. Values are those of nobody else. One client in some rounds deletes all claims.
func script(seed uint64, round, client int) []Request {
	random := rand.New(rand.NewPCG(seed, uint64(round)<<8|uint64(client)))
	if client == clients-1 && random.IntN(8) == 0 {
		return []Request{{Verb: removeAll}}
	}
	claim, verbs := id, renames
	if client%2 == 1 {
		claim, verbs = set, memberships
	}
	var requests []Request
	for i := range requestsEach {
		verb := verbs.pick(random)
		request := Request{Verb: verb, Claim: claim, Value: fmt.Sprintf("r%d-c%d-%d", round, client, i)}
		switch verb {
		case put, removeVersion:
			// The version that they name is one that they have read.
			requests = append(requests, Request{Verb: get, Claim: claim})
		case hold, release, remove, removeForeground, removeCollection, get, list:
			request.Value = ""
		}
		if verb == removeVersion {
			request.Value = ""
		}
		requests = append(requests, request)
	}
	return requests
}
