// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kube-annex/annex/test/performance/measure"
)

// The peers.
const (
	nameAnnex  = "annex up"
	nameSample = "sample control plane"
	nameEtcd   = "its etcd"
)

// What is measured.
const (
	rowFirst      = "first start, s"
	rowLater      = "later start, s"
	rowResident   = "resident, MiB"
	rowAnonymous  = "of it anonymous, MiB"
	rowFile       = "of it the program's file, MiB"
	rowCPU        = "CPU at rest, % of a core"
	rowGoroutines = "goroutines"
)

var rows = []string{rowFirst, rowLater, rowResident, rowAnonymous, rowFile, rowCPU, rowGoroutines}

// goals are those of `annex up`.
var goals = map[string]measure.Bound{
	rowFirst:     {AtMost: true, Value: 1.2},
	rowLater:     {AtMost: true, Value: 0.8},
	rowResident:  {AtMost: true, Value: 150},
	rowAnonymous: {AtMost: true, Value: 75},
	rowCPU:       {AtMost: true, Value: 2},
}

// runtimeRows are what Go says itself, as sums of its metrics.
var runtimeRows = map[string][]string{
	rowGoroutines:                  {"go_goroutines"},
	"heap in use":                  {"go_memstats_heap_inuse_bytes"},
	"objects, garbage included":    {"go_memstats_heap_alloc_bytes"},
	"heap kept, and not in use":    {"go_memstats_heap_idle_bytes"},
	"of that given back":           {"go_memstats_heap_released_bytes"},
	"stacks":                       {"go_memstats_stack_inuse_bytes"},
	"garbage collection and other": {"go_memstats_gc_sys_bytes", "go_memstats_mspan_sys_bytes", "go_memstats_buck_hash_sys_bytes", "go_memstats_other_sys_bytes"},
}

var memoryRows = []string{"objects, garbage included", "heap in use", "heap kept, and not in use", "of that given back", "stacks", "garbage collection and other"}

// of tells which start a phase belongs to.
func of(row string) string {
	start, _, _ := strings.Cut(row, ",")
	return ", " + start
}

// results are all figures of all rounds.
type results struct {
	// Values are by peer and row.
	Values map[string]map[string][]float64 `json:"values"`
	// Owners tell what the heap of `annex up` is for, in MiB.
	Owners map[string]float64 `json:"owners"`
}

func newResults() *results { return &results{Values: map[string]map[string][]float64{}} }

func (r *results) add(peer, row string, value float64) {
	if r.Values[peer] == nil {
		r.Values[peer] = map[string][]float64{}
	}
	r.Values[peer][row] = append(r.Values[peer][row], value)
}

func (r *results) spread(peer, row string) measure.Spread {
	return measure.SpreadOf(r.Values[peer][row])
}

// tables are those for readers.
func (r *results) tables() []string {
	var all [][]string
	for _, row := range rows {
		cells := []string{row, "–", "–"}
		ours := r.spread(nameAnnex, row)
		if goal, ok := goals[row]; ok {
			cells[1], cells[2] = goal.String(), "no"
			if ours.Rounds > 0 && goal.Met(ours.Median) {
				cells[2] = "yes"
			}
		}
		all = append(all, append(cells, ours.String(), r.spread(nameSample, row).String(), r.spread(nameEtcd, row).String()))
	}
	out := []string{measure.Table([]string{"median (least–most)", "goal", "met", nameAnnex, nameSample, nameEtcd}, all)}
	return append(out, r.phaseTable(), r.memoryTable(), r.ownerTable())
}

func (r *results) phaseTable() string {
	var all [][]string
	for _, phase := range phases {
		all = append(all, []string{phase, r.spread(nameAnnex, phase+of(rowFirst)).String(), r.spread(nameAnnex, phase+of(rowLater)).String()})
	}
	return measure.Table([]string{"where the time goes, ms", "first start", "later start"}, all)
}

func (r *results) memoryTable() string {
	var all [][]string
	for _, row := range memoryRows {
		all = append(all, []string{row, r.spread(nameAnnex, row).String(), r.spread(nameSample, row).String()})
	}
	return measure.Table([]string{"anonymous memory by Go runtime metrics, MiB", nameAnnex, nameSample}, all)
}

func (r *results) ownerTable() string {
	names := make([]string, 0, len(r.Owners))
	total := 0.0
	for name, size := range r.Owners {
		names = append(names, name)
		total += size
	}
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case r.Owners[a] > r.Owners[b]:
			return -1
		case r.Owners[a] < r.Owners[b]:
			return 1
		}
		return strings.Compare(a, b)
	})
	all := [][]string{{"all", measure.Figure(total)}}
	for _, name := range names {
		all = append(all, []string{name, measure.Figure(r.Owners[name])})
	}
	return measure.Table([]string{"what objects in the heap are for, after garbage collection", "MiB"}, all)
}

func (r *results) write(file string) error {
	if file == "" {
		return nil
	}
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the results: %w", err)
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}
