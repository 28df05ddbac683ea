// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// bounds are what the project promises.
var bounds = map[string]string{
	rowStarted: "p50 ≤ 10, p99 ≤ 50", rowCommits: "p99 ≤ 50", rowKilled: "p99 ≤ 4500", rowSpread: "60", rowMoved: "0",
	rowTransition: "≤ the next row", rowHeap: "≤ the next row",
}

var rows = []string{
	rowStarted, rowAnswered, rowCommits, rowPeer, rowRatio, rowKilled, rowSpread, rowTaken, rowMoved,
	rowTransition, rowRestart, rowMemoryFirst, rowMemory, rowMemoryRestart, rowHeap, rowHeapRestart,
}

// table is all measurements, by row and server.
type table struct {
	servers []string
	values  map[string]map[string][]float64
}

func newTable(servers []server) *table {
	t := &table{values: map[string]map[string][]float64{}}
	for _, s := range servers {
		t.servers = append(t.servers, s.name)
	}
	return t
}

// add notes a duration in milliseconds.
func (t *table) add(row string, at server, d time.Duration) {
	t.addValue(row, at, float64(d)/float64(time.Millisecond))
}

func (t *table) addValue(row string, at server, value float64) {
	if t.values[row] == nil {
		t.values[row] = map[string][]float64{}
	}
	t.values[row][at.name] = append(t.values[row][at.name], value)
}

// print writes a row a measurement: one figure as it is, more of them as median, p99 and maximum.
func (t *table) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| p50 / p99 / max (count) | bound | %s |\n|---|---|%s\n", strings.Join(t.servers, " | "), strings.Repeat("---|", len(t.servers)))
	for _, row := range rows {
		cells := []string{row, bounds[row]}
		for _, server := range t.servers {
			cells = append(cells, t.cell(row, server))
		}
		if strings.Trim(strings.Join(cells[2:], ""), "–") != "" {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (t *table) cell(row, server string) string {
	if row == rowRatio {
		ours, theirs := t.values[rowStarted][server], t.values[rowPeer][server]
		if len(ours) == 0 || len(theirs) == 0 {
			return "–"
		}
		return fmt.Sprintf("**%.0f×**", quantile(theirs, 0.5)/quantile(ours, 0.5))
	}
	values := t.values[row][server]
	switch len(values) {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf("%.4g", values[0])
	}
	return fmt.Sprintf("%.4g / %.4g / %.4g (%d)", quantile(values, 0.5), quantile(values, 0.99), slices.Max(values), len(values))
}

// quantile is the smallest value that so large a part of all does not exceed.
func quantile(values []float64, part float64) float64 {
	ordered := slices.Sorted(slices.Values(values))
	return ordered[min(len(ordered)-1, int(part*float64(len(ordered))))]
}
