// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/test/performance/measure"
)

// measured returns results with two rounds of a few works: CPU seconds of 1000 operations, and p50 in milliseconds.
func measured(figures map[string]map[string][2]sample) *results {
	r := &results{Rounds: map[string]map[string][]sample{}, Peers: []string{peerEtcd, peerCRD, peerSampleDirect, peerSampleAggregated, peerAnnexDirect, peerAnnexAggregated}}
	for work, peers := range figures {
		for name, rounds := range peers {
			for _, s := range rounds {
				r.add(work, &peer{name: name}, s)
			}
		}
	}
	return r
}

func cost(server, etcd, seconds float64) sample {
	return sample{Operations: 1000, Seconds: seconds, CPU: usage{roleServer: server, roleEtcd: etcd}, Resident: usage{roleServer: 100, roleEtcd: 50}}
}

func within(p50, p99 float64) sample { return sample{Operations: 1, Seconds: 1, P50: p50, P99: p99} }

// goalOf returns how a goal came out.
func goalOf(t *testing.T, all []judged, what, how string) judged {
	t.Helper()
	at := slices.IndexFunc(all, func(j judged) bool { return j.What == what && strings.HasPrefix(j.How, how) })
	if at < 0 {
		t.Fatalf("there is no goal for %s of %s", what, how)
	}
	return all[at]
}

func TestGoalsAreHeldAgainstTheSameRound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		figures   map[string]map[string][2]sample
		what, how string
		want      measure.Spread
		beside    measure.Spread
		met       bool
	}{
		"CPU of all processes, and the rate beside it": {
			figures: map[string]map[string][2]sample{workCreate: {
				peerCRD:         {cost(0.8, 0.2, 2), cost(0.9, 0.3, 2)},
				peerAnnexDirect: {cost(0.3, 0.2, 1), cost(0.6, 0.2, 1)},
			}},
			what: workCreate, how: peerAnnexDirect,
			want: measure.Spread{Median: 1.75, Min: 1.5, Max: 2, Rounds: 2}, beside: measure.Spread{Median: 2, Min: 2, Max: 2, Rounds: 2}, met: true,
		},
		"too much CPU": {
			figures: map[string]map[string][2]sample{workCreate: {
				peerCRD:         {cost(0.8, 0.2, 2), cost(0.8, 0.2, 2)},
				peerAnnexDirect: {cost(0.8, 0.2, 1), cost(0.6, 0.2, 1)},
			}},
			what: workCreate, how: peerAnnexDirect,
			want: measure.Spread{Median: 1.125, Min: 1, Max: 1.25, Rounds: 2}, beside: measure.Spread{Median: 2, Min: 2, Max: 2, Rounds: 2},
		},
		"protobuf against JSON": {
			figures: map[string]map[string][2]sample{
				workList:         {peerCRD: {cost(2, 0, 1), cost(2, 0, 1)}},
				workListProtobuf: {peerAnnexDirect: {cost(0.1, 0, 1), cost(0.1, 0, 1)}},
			},
			what: workListProtobuf, how: peerAnnexDirect,
			want: measure.Spread{Median: 20, Min: 20, Max: 20, Rounds: 2}, beside: measure.Spread{Median: 1, Min: 1, Max: 1, Rounds: 2}, met: true,
		},
		"time of one client against etcd": {
			figures: map[string]map[string][2]sample{workCreateAlone: {
				peerEtcd: {within(1, 9), within(1, 9)}, peerAnnexDirect: {within(2, 9), within(4, 9)},
			}},
			what: workCreateAlone, how: peerAnnexDirect,
			want: measure.Spread{Median: 3, Min: 2, Max: 4, Rounds: 2},
		},
		"what the hop adds, against what it adds to the sample": {
			figures: map[string]map[string][2]sample{workGetAlone: {
				peerAnnexDirect: {within(1, 9), within(1, 9)}, peerAnnexAggregated: {within(2, 9), within(1.5, 9)},
				peerSampleDirect: {within(1, 9), within(1, 9)}, peerSampleAggregated: {within(2, 9), within(2, 9)},
			}},
			what: workHop, how: peerAnnexAggregated,
			want:   measure.Spread{Median: -0.25, Min: -0.5, Max: 0, Rounds: 2},
			beside: measure.Spread{Median: 0.75, Min: 0.5, Max: 1, Rounds: 2}, met: true,
		},
		"one who never reads": {
			figures: map[string]map[string][2]sample{
				workWatch:       {peerAnnexDirect: {within(1, 10), within(1, 10)}},
				workWatchBeside: {peerAnnexDirect: {within(1, 10), within(2, 13)}},
			},
			what: workWatchBeside, how: peerAnnexDirect,
			want: measure.Spread{Median: 1.15, Min: 1, Max: 1.3, Rounds: 2}, beside: measure.Spread{Median: 1.5, Min: 1, Max: 2, Rounds: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := goalOf(t, judgeAll(measured(tc.figures)), tc.what, tc.how)
			near := cmp.Comparer(func(one, other float64) bool { return one-other < 1e-9 && other-one < 1e-9 })
			if diff := cmp.Diff(tc.want, got.Measured, near); diff != "" {
				t.Errorf("measured (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.beside, got.Beside, near); diff != "" {
				t.Errorf("beside (-want,+got):\n%s", diff)
			}
			if got.Met != tc.met {
				t.Errorf("met: %v, want %v", got.Met, tc.met)
			}
		})
	}
}

func TestWhatWasNotMeasuredIsNotJudged(t *testing.T) {
	t.Parallel()
	if got := judgeAll(measured(map[string]map[string][2]sample{workCreate: {peerAnnexDirect: {cost(1, 1, 1), cost(1, 1, 1)}}})); len(got) > 0 {
		t.Errorf("without a CRD there is nothing to compare with, but: %v", got)
	}
}

func TestReportHasGoalsAndAllPeers(t *testing.T) {
	t.Parallel()
	r := measured(map[string]map[string][2]sample{workCreate: {
		peerCRD:         {cost(0.8, 0.2, 2), cost(0.8, 0.2, 2)},
		peerAnnexDirect: {cost(0.3, 0.2, 1), cost(0.3, 0.2, 1)},
	}})
	r.judge()
	got := goalTable(r.Goals) + r.tables()
	for _, want := range []string{
		"| create | annex, direct, against CRD | ≥ 1.5× | 2.00 (2.00–2.00) | 2.00 (2.00–2.00) | yes |",
		"| CRD | 500 (500–500) | 0 (0–0) | 0 (0–0) | 1000 (1000–1000) | 800 | – | 200 | 100 | – | 50.0 | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) |",
		"| annex, direct | 1000 (1000–1000) | 0 (0–0) | 0 (0–0) | 500 (500–500) | 300 | – | 200 | 100 | – | 50.0 | 2.00 (2.00–2.00) | 2.00 (2.00–2.00) |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
	if len(r.Chart) != 1 || len(r.Chart[0].Peers) != 2 || r.Chart[0].Peers[1].Goal != 1.5 {
		t.Errorf("the chart is %+v, want two peers at one work, and the goal of one", r.Chart)
	}
}

// The table of the plan has a goal for each of these.
func TestEveryWorkOfThePlanHasAGoal(t *testing.T) {
	t.Parallel()
	judgedWorks := map[string]int{}
	for _, g := range goals() {
		judgedWorks[g.what]++
	}
	want := map[string]int{
		workCreate: 3, workCreateAlone: 3, workMergePatch: 3, workUpdate: 3, workApply: 3, workGetCached: 3, workGetQuorum: 3,
		workList: 3, workListProtobuf: 3, workWatch: 2, workWatchBeside: 2, workHeap: 2, workHop: 2,
	}
	if diff := cmp.Diff(want, judgedWorks); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
