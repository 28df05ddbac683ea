// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"fmt"

	"k8s.io/component-base/metrics"
)

// Metrics are those of all electors of a process. Every series has the group as its name, and is there from the start.
type Metrics struct {
	leading       *metrics.GaugeVec
	transitions   *metrics.CounterVec
	termSeconds   *metrics.HistogramVec
	stopSeconds   *metrics.HistogramVec
	leaked        *metrics.GaugeVec
	lateWrites    *metrics.CounterVec
	panics        *metrics.CounterVec
	failures      *metrics.CounterVec
	stuck         *metrics.GaugeVec
	registerables []metrics.Registerable
}

// NewMetrics returns metrics that are not registered yet; until they are, nothing is counted.
func NewMetrics() *Metrics {
	m := &Metrics{}
	gauge := func(name, help string, labels ...string) *metrics.GaugeVec {
		vec := metrics.NewGaugeVec(&metrics.GaugeOpts{Name: "leader_election_" + name, Help: help, StabilityLevel: metrics.ALPHA}, append([]string{"name"}, labels...))
		m.registerables = append(m.registerables, vec)
		return vec
	}
	counter := func(name, help string) *metrics.CounterVec {
		vec := metrics.NewCounterVec(&metrics.CounterOpts{Name: "leader_election_" + name, Help: help, StabilityLevel: metrics.ALPHA}, []string{"name"})
		m.registerables = append(m.registerables, vec)
		return vec
	}
	histogram := func(name, help string, buckets []float64) *metrics.HistogramVec {
		vec := metrics.NewHistogramVec(&metrics.HistogramOpts{
			Name: "leader_election_" + name, Help: help, Buckets: buckets, StabilityLevel: metrics.ALPHA,
		}, []string{"name"})
		m.registerables = append(m.registerables, vec)
		return vec
	}
	const day = 24 * 60 * 60
	m.leading = gauge("master_status", "1 while this process holds the Lease of the group, else 0.")
	m.transitions = counter("transitions_total", "Terms that this process has begun.")
	m.termSeconds = histogram("term_duration_seconds", "How long terms lasted, from acquiring the Lease to letting go.", metrics.ExponentialBucketsRange(1, 30*day, 12))
	m.stopSeconds = histogram("stop_duration_seconds", "How long the runners of a term took to return.", metrics.ExponentialBuckets(0.001, 4, 8))
	m.leaked = gauge("leaked_goroutines", "Goroutines that terms which are over have left behind.")
	m.lateWrites = counter("late_writes_refused_total", "Writes that the client of a term refused because the term was over.")
	m.panics = counter("runner_panics_total", "Panics of runners, each of which ended its term.")
	m.failures = counter("term_failures_total", "Terms that their own runners ended: one returned, failed or panicked, or could not be made.")
	m.stuck = gauge("wedged", "1 while the group is stuck for the reason: held but not running, stuck stopping, impossible to acquire, or leading without the right to read.", "reason")
	return m
}

// Register adds the metrics to a registry, such as legacyregistry; a registry takes them once.
func (m *Metrics) Register(register func(metrics.Registerable) error) error {
	for _, metric := range m.registerables {
		if err := register(metric); err != nil {
			return fmt.Errorf("register the metrics of leadership: %w", err)
		}
	}
	return nil
}

// groupMetrics are the series of one group.
type groupMetrics struct {
	*Metrics
	name string
}

// start makes every series exist, so that cycles add none.
func (m groupMetrics) start() {
	m.leading.WithLabelValues(m.name).Set(0)
	m.leaked.WithLabelValues(m.name).Set(0)
	for _, counter := range []*metrics.CounterVec{m.transitions, m.lateWrites, m.panics, m.failures} {
		counter.WithLabelValues(m.name).Add(0)
	}
	for _, histogram := range []*metrics.HistogramVec{m.termSeconds, m.stopSeconds} {
		histogram.WithLabelValues(m.name)
	}
	m.setStuck("")
}

func (m groupMetrics) setLeading(leading bool) {
	value := 0.0
	if leading {
		value = 1
	}
	m.leading.WithLabelValues(m.name).Set(value)
}

func (m groupMetrics) setStuck(reason string) {
	for _, known := range stuckReasons {
		value := 0.0
		if known == reason {
			value = 1
		}
		m.stuck.WithLabelValues(m.name, known).Set(value)
	}
}
