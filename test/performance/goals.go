// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/kube-annex/annex/test/performance/measure"

// goal is what Annex is to reach.
type goal struct {
	// what and how are for readers: the work and what is compared.
	what, how string
	values    func(*results) []float64
	bound     measure.Bound
	// beside is another figure of the same comparison, which is shown and not judged.
	beside func(*results) []float64
}

// judged is a goal with what was measured.
type judged struct {
	What     string         `json:"what"`
	How      string         `json:"how"`
	Goal     string         `json:"goal"`
	Measured measure.Spread `json:"measured"`
	Beside   measure.Spread `json:"beside"`
	Met      bool           `json:"met"`
}

func atLeast(value float64) measure.Bound { return measure.Bound{Value: value, Unit: "×"} }
func atMost(value float64, unit string) measure.Bound {
	return measure.Bound{AtMost: true, Value: value, Unit: unit}
}

// cheaper compares CPU seconds an operation with those of a CRD: how many times less the peer takes. The rate is beside it.
func cheaper(work, peer string, times float64) goal { return cheaperThan(work, work, peer, times) }

func cheaperThan(theirs, ours, peer string, times float64) goal {
	return goal{
		what: ours, how: peer + ", against CRD", bound: atLeast(times),
		values: func(r *results) []float64 {
			return combine(r.values(theirs, peerCRD, cpu), r.values(ours, peer, cpu), quotient)
		},
		beside: func(r *results) []float64 {
			return combine(r.values(ours, peer, rate), r.values(theirs, peerCRD, rate), quotient)
		},
	}
}

// asQuick compares the median time with that of etcd alone.
func asQuick(peer string, times float64) goal {
	return goal{
		what: workCreateAlone, how: peer + ", p50 against etcd", bound: atMost(times, "×"),
		values: func(r *results) []float64 {
			return combine(r.values(workCreateAlone, peer, p50), r.values(workCreateAlone, peerEtcd, p50), quotient)
		},
	}
}

func watchedWithin(peer string, milliseconds float64) goal {
	return goal{
		what: workWatch, how: peer + ", p99 from sending a change to its event", bound: atMost(milliseconds, " ms"),
		values: func(r *results) []float64 { return r.values(workWatch, peer, p99) },
	}
}

func undisturbed(peer string, times float64) goal {
	return goal{
		what: workWatchBeside, how: peer + ", p99 against the same without", bound: atMost(times, "×"),
		values: func(r *results) []float64 {
			return combine(r.values(workWatchBeside, peer, p99), r.values(workWatch, peer, p99), quotient)
		},
		beside: func(r *results) []float64 {
			return combine(r.values(workWatchBeside, peer, p50), r.values(workWatch, peer, p50), quotient)
		},
	}
}

func smaller(peer string, times float64) goal {
	return goal{
		what: workHeap, how: peer + ", against CRD", bound: atMost(times, "×"),
		values: func(r *results) []float64 {
			return combine(r.values(workHeap, peer, heap), r.values(workHeap, peerCRD, heap), quotient)
		},
	}
}

// hop is what asking through an aggregator adds to the median time, in milliseconds.
func hop(r *results, through, direct string) []float64 {
	return combine(r.values(workGetAlone, through, p50), r.values(workGetAlone, direct, p50), difference)
}

// shortHop compares what the hop adds with what it adds to the sample: by how many milliseconds it is more.
func shortHop(through, direct string) goal {
	return goal{
		what: workHop, how: through + ", added p50 of a get, more than sample-apiserver's", bound: atMost(0, " ms"),
		values: func(r *results) []float64 {
			return combine(hop(r, through, direct), hop(r, peerSampleAggregated, peerSampleDirect), difference)
		},
		beside: func(r *results) []float64 { return hop(r, through, direct) },
	}
}

// goals are those of the project's plan, in its order.
func goals() []goal {
	out := []goal{
		cheaper(workCreate, peerAnnexDirect, 1.5), cheaper(workCreate, peerUpDirect, 2), cheaper(workCreate, peerUpThrough, 1.3),
		asQuick(peerAnnexDirect, 2.5), asQuick(peerUpDirect, 2.5), asQuick(peerUpThrough, 3.5),
	}
	for _, of := range []struct {
		work            string
		direct, through float64
	}{
		{workMergePatch, 1.6, 1.2}, {workUpdate, 1.6, 1.2}, {workApply, 1.4, 1.2}, {workGetCached, 1.5, 1}, {workGetQuorum, 1.5, 1}, {workList, 3.5, 2.5},
	} {
		out = append(out, cheaper(of.work, peerAnnexDirect, of.direct), cheaper(of.work, peerUpDirect, of.direct), cheaper(of.work, peerUpThrough, of.through))
	}
	return append(out,
		cheaperThan(workList, workListProtobuf, peerAnnexDirect, 10),
		cheaperThan(workList, workListProtobuf, peerUpDirect, 10),
		cheaperThan(workList, workListProtobuf, peerUpThrough, 6),
		watchedWithin(peerAnnexDirect, 50), watchedWithin(peerUpThrough, 50),
		undisturbed(peerAnnexDirect, 1.1), undisturbed(peerUpThrough, 1.1),
		smaller(peerAnnexDirect, 0.25), smaller(peerUpDirect, 0.25),
		shortHop(peerAnnexAggregated, peerAnnexDirect), shortHop(peerUpThrough, peerUpDirect),
	)
}

func (g goal) judge(r *results) judged {
	out := judged{What: g.what, How: g.how, Goal: g.bound.String(), Measured: measure.SpreadOf(g.values(r))}
	out.Met = out.Measured.Rounds > 0 && g.bound.Met(out.Measured.Median)
	if g.beside != nil {
		out.Beside = measure.SpreadOf(g.beside(r))
	}
	return out
}

// judgeAll returns the goals of which something was measured.
func judgeAll(r *results) (out []judged) {
	for _, g := range goals() {
		if verdict := g.judge(r); verdict.Measured.Rounds > 0 {
			out = append(out, verdict)
		}
	}
	return out
}
