// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/kube-annex/annex/test/performance/measure"

// bars are what test/modules/chart draws for a work: how many times less CPU each peer takes than a CRD.
type bars struct {
	Work  string `json:"work"`
	Peers []bar  `json:"peers"`
}

type bar struct {
	Peer  string         `json:"peer"`
	Times measure.Spread `json:"times"`
	// Goal is 0 where there is none.
	Goal float64 `json:"goal,omitempty"`
}

var charted = []string{workCreate, workUpdate, workMergePatch, workApply, workGetCached, workGetQuorum, workDelete, workList, workListProtobuf}

func chart(r *results) (out []bars) {
	for _, work := range charted {
		of := bars{Work: work}
		for _, peer := range r.Peers {
			times := combine(r.values(baselineOf(work), peerCRD, cpu), r.values(work, peer, cpu), quotient)
			if len(times) > 0 {
				of.Peers = append(of.Peers, bar{Peer: peer, Times: measure.SpreadOf(times), Goal: chartedGoal(work, peer)})
			}
		}
		if len(of.Peers) > 0 {
			out = append(out, of)
		}
	}
	return out
}

// chartedGoal is the goal for CPU at a work of a peer.
func chartedGoal(work, peer string) float64 {
	for _, g := range goals() {
		if g.what == work && g.how == cheaper(work, peer, 0).how {
			return g.bound.Value
		}
	}
	return 0
}
