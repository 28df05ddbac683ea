// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kube-annex/annex/test/performance/measure"
)

// publish writes results, tables and chart. What is not of a whole run is printed only.
func (b *bench) publish(ctx context.Context) error {
	s, r := b.settings, b.results
	r.judge()
	if s.out == "" {
		s.out = filepath.Join(b.servers.dir, "results.json")
	}
	if err := r.write(s.out); err != nil {
		return err
	}
	text := r.environment() + "\n" + goalTable(r.Goals) + "\n" + r.tables()
	whole := s.only == "" && s.which == "" && !s.short
	if s.chart != "" && whole {
		if err := drawChart(ctx, s); err != nil {
			return err
		}
	}
	if s.readme != "" && whole {
		return measure.Replace(s.readme, "figures", text)
	}
	_, err := os.Stdout.WriteString(text)
	return err
}

// drawChart runs test/modules/chart, which is a module of its own.
func drawChart(ctx context.Context, s settings) error {
	from, err := filepath.Abs(s.out)
	if err != nil {
		return err
	}
	to, err := filepath.Abs(s.chart)
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "run", ".", from, to)
	command.Dir = filepath.Join(s.root, "test", "modules", "chart")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("draw the chart: %w\n%s", err, output)
	}
	return nil
}

func (r *results) environment() string {
	s := r.Settings
	return fmt.Sprintf("%v, %v cores that load generator, servers and etcds share, load %v before the run, %v. %v rounds; %v clients; %v objects stored; "+
		"each work lasts %v s in a round; %v watchers and %v changes a second.\n",
		s["date"], s["cores"], s["load"], s["go"], s["rounds"], s["clients"], s["stored"], s["seconds"], s["watchers"], s["eventsPerSecond"])
}

func goalTable(goals []judged) string {
	var rows [][]string
	for _, g := range goals {
		met := "**no**"
		if g.Met {
			met = "yes"
		}
		rows = append(rows, []string{g.What, g.How, g.Goal, g.Measured.String(), g.Beside.String(), met})
	}
	return measure.Table([]string{"work", "compared", "goal", "measured", "beside: rate; of watches p50; of the hop what it adds", "met"}, rows)
}

// tables has one for each work, with all peers.
func (r *results) tables() string {
	var b strings.Builder
	for _, w := range works {
		if len(r.Rounds[w.name]) > 0 {
			fmt.Fprintf(&b, "### %s\n\n%s\n", w.name, r.table(w.name, baselineOf(w.name)))
		}
	}
	for _, name := range []string{workWatch, workWatchBeside} {
		if len(r.Rounds[name]) > 0 {
			fmt.Fprintf(&b, "### %s\n\n%s\n", name, r.table(name, name))
		}
	}
	if len(r.Rounds[workHeap]) > 0 {
		fmt.Fprintf(&b, "### %s, bytes of an object\n\n%s\n", workHeap, r.heapTable())
	}
	return b.String()
}

// baselineOf is the work of the CRD that a work is held against: it has no protobuf.
func baselineOf(work string) string {
	if work == workListProtobuf {
		return workList
	}
	return work
}

func (r *results) table(work, baseline string) string {
	head := []string{
		"peer", "operations/s", "p50 ms", "p99 ms", "CPU µs/operation", "of it server", "host", "etcd", "resident MiB server", "host", "etcd", "CPU of CRD / CPU", "rate / rate of CRD",
	}
	var rows [][]string
	for _, peer := range r.Peers {
		if len(r.Rounds[work][peer]) == 0 {
			continue
		}
		row := []string{peer}
		for _, of := range []figure{rate, p50, p99, cpu} {
			row = append(row, measure.SpreadOf(r.values(work, peer, of)).String())
		}
		for _, of := range []func(string) figure{cpuOf, residentOf} {
			for _, role := range roles {
				row = append(row, r.ofRole(work, peer, role, of(role)))
			}
		}
		row = append(row,
			measure.SpreadOf(combine(r.values(baseline, peerCRD, cpu), r.values(work, peer, cpu), quotient)).String(),
			measure.SpreadOf(combine(r.values(work, peer, rate), r.values(baseline, peerCRD, rate), quotient)).String())
		rows = append(rows, row)
	}
	return measure.Table(head, rows)
}

// ofRole is the median of a figure, if processes of the role have a part in what the peer does.
func (r *results) ofRole(work, peer, role string, of figure) string {
	if _, there := r.Rounds[work][peer][0].CPU[role]; !there {
		return "–"
	}
	return measure.Figure(measure.SpreadOf(r.values(work, peer, of)).Median)
}

func (r *results) heapTable() string {
	var rows [][]string
	for _, peer := range r.Peers {
		if values := r.values(workHeap, peer, heap); len(values) > 0 {
			of := combine(values, r.values(workHeap, peerCRD, heap), quotient)
			rows = append(rows, []string{peer, measure.SpreadOf(values).String(), measure.SpreadOf(of).String()})
		}
	}
	return measure.Table([]string{"peer", "bytes", "against CRD"}, rows)
}
