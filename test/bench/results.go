// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// baseline is the peer that ratios are to.
const baseline = "CRD"

// results are all measurements by work and peer, one a round.
type results struct {
	settings settings
	peers    []string
	Rounds   map[string]map[string][]measurement `json:"rounds"`
}

func newResults(s settings, targets []*target) *results {
	r := &results{settings: s, Rounds: map[string]map[string][]measurement{}}
	for _, t := range targets {
		r.peers = append(r.peers, t.name)
	}
	return r
}

func (r *results) add(work, peer string, m measurement) {
	if r.Rounds[work] == nil {
		r.Rounds[work] = map[string][]measurement{}
	}
	r.Rounds[work][peer] = append(r.Rounds[work][peer], m)
}

func (r *results) write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

// print writes one row a work: for each peer the median rate, p50 and p99, and the median of its ratios to the CRD in the same
// round. Protobuf is held against the CRD's JSON, since a CRD has nothing else.
func (r *results) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d rounds; %d clients; %d writes, %d gets, %d objects listed, %d watchers. Cells: operations a second (p50/p99 in ms), ratio of rates to the CRD (median, min–max).\n\n",
		r.settings.rounds, r.settings.clients, r.settings.writes, r.settings.reads, r.settings.stored, r.settings.watchers)
	fmt.Fprintf(&b, "| work | %s |\n|---|%s\n", strings.Join(r.peers, " | "), strings.Repeat("---|", len(r.peers)))
	for _, work := range works {
		cells := []string{work.name}
		for _, peer := range r.peers {
			cells = append(cells, r.cell(work, peer))
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *results) cell(w work, peer string) string {
	rounds := r.Rounds[w.name][peer]
	if len(rounds) == 0 {
		return "–"
	}
	text := fmt.Sprintf("%.0f (%.1f/%.1f)", median(rounds, rate), median(rounds, p50), median(rounds, p99))
	against := r.Rounds[w.name][baseline]
	if w.protobuf {
		against = r.Rounds["list, JSON"][baseline]
	}
	if peer == baseline || len(against) != len(rounds) {
		return text
	}
	ratios := make([]float64, len(rounds))
	for i := range rounds {
		ratios[i] = rounds[i].Rate / against[i].Rate
	}
	slices.Sort(ratios)
	return fmt.Sprintf("%s **%.2f×** (%.2f–%.2f)", text, ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
}

func rate(m measurement) float64 { return m.Rate }
func p50(m measurement) float64  { return m.P50 }
func p99(m measurement) float64  { return m.P99 }

func median(rounds []measurement, of func(measurement) float64) float64 {
	values := make([]float64, len(rounds))
	for i, m := range rounds {
		values[i] = of(m)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
