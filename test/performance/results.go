// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"os"
	"runtime"
	"time"
)

// sample is one work on one peer in one round.
type sample struct {
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds,omitempty"`
	P50        float64 `json:"p50Milliseconds,omitempty"`
	P99        float64 `json:"p99Milliseconds,omitempty"`
	// CPU is in seconds and Resident in MiB, by the role of the process.
	CPU      usage `json:"cpuSeconds,omitempty"`
	Resident usage `json:"residentMiB,omitempty"`
	// Heap is in bytes an object.
	Heap float64 `json:"heapBytes,omitempty"`
}

// figure is something that a sample tells.
type figure func(sample) float64

func rate(s sample) float64 { return float64(s.Operations) / s.Seconds }
func p50(s sample) float64  { return s.P50 }
func p99(s sample) float64  { return s.P99 }
func heap(s sample) float64 { return s.Heap }

// cpu is in microseconds an operation, of all processes together.
func cpu(s sample) float64 {
	total := 0.0
	for _, seconds := range s.CPU {
		total += seconds
	}
	return total / float64(s.Operations) * 1e6
}

// cpuOf is the same of the processes of one role.
func cpuOf(role string) figure {
	return func(s sample) float64 { return s.CPU[role] / float64(s.Operations) * 1e6 }
}

func residentOf(role string) figure {
	return func(s sample) float64 { return s.Resident[role] }
}

// results are all samples by work and peer, one a round.
type results struct {
	Settings map[string]any                 `json:"settings"`
	Peers    []string                       `json:"peers"`
	Rounds   map[string]map[string][]sample `json:"rounds"`
	Goals    []judged                       `json:"goals"`
	Chart    []bars                         `json:"chart"`
}

func newResults(s settings, peers []*peer) *results {
	r := &results{
		Rounds: map[string]map[string][]sample{},
		Settings: map[string]any{
			"rounds": s.rounds, "clients": s.clients, "stored": s.stored, "seconds": s.lasting.Seconds(), "watchers": s.watchers, "eventsPerSecond": s.perSecond,
			"cores": runtime.NumCPU(), "go": runtime.Version(), "date": time.Now().UTC().Format(time.DateOnly), "load": loadAverage(),
		},
	}
	for _, p := range peers {
		r.Peers = append(r.Peers, p.name)
	}
	return r
}

// loadAverage is how busy the machine was before the run, for whoever reads the figures later.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil || len(content) < 4 {
		return "unknown"
	}
	return string(content[:4])
}

func (r *results) add(work string, p *peer, s sample) {
	if r.Rounds[work] == nil {
		r.Rounds[work] = map[string][]sample{}
	}
	r.Rounds[work][p.name] = append(r.Rounds[work][p.name], s)
}

// values are a figure of each round.
func (r *results) values(work, peer string, of figure) []float64 {
	var out []float64
	for _, s := range r.Rounds[work][peer] {
		out = append(out, of(s))
	}
	return out
}

// combine compares two figures round by round; there is nothing to compare where one was not measured in all rounds.
func combine(one, other []float64, how func(one, other float64) float64) []float64 {
	if len(one) != len(other) {
		return nil
	}
	var out []float64
	for i := range one {
		if value := how(one[i], other[i]); !math.IsNaN(value) {
			out = append(out, value)
		}
	}
	return out
}

func quotient(one, other float64) float64   { return one / other }
func difference(one, other float64) float64 { return one - other }

// judge holds the results against the goals.
func (r *results) judge() { r.Goals, r.Chart = judgeAll(r), chart(r) }

func (r *results) write(path string) error {
	content, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}
