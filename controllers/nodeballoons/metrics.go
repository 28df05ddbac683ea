// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
)

// Metrics are those of all nodes. A series is there while its node is, and while this process leads.
type Metrics struct {
	effective, balloon *metrics.GaugeVec
}

// NewMetrics returns metrics that are not registered yet; until they are, nothing is counted.
func NewMetrics() *Metrics {
	gauge := func(name, help string) *metrics.GaugeVec {
		return metrics.NewGaugeVec(&metrics.GaugeOpts{Name: "annex_node_balloon_" + name, Help: help, StabilityLevel: metrics.ALPHA}, []string{"node", "resource"})
	}
	return &Metrics{
		effective: gauge("effective_allocatable", "The size of the node as pods see it: what is allocatable less what its balloon holds; cpu in cores, memory in bytes."),
		balloon:   gauge("allocated", "What the balloon of the node holds, which does not exist for pods; cpu in cores, memory in bytes."),
	}
}

// Register adds the metrics to a registry, such as legacyregistry; a registry takes them once.
func (m *Metrics) Register(register func(metrics.Registerable) error) error {
	for _, vec := range []*metrics.GaugeVec{m.effective, m.balloon} {
		if err := register(vec); err != nil {
			return fmt.Errorf("register the metrics of NodeBalloons: %w", err)
		}
	}
	return nil
}

func (m *Metrics) set(node string, allocatable, balloon size) {
	if m == nil {
		return
	}
	for vec, value := range map[*metrics.GaugeVec]size{m.effective: allocatable.less(balloon), m.balloon: balloon} {
		const milli = 1000
		vec.WithLabelValues(node, string(corev1.ResourceCPU)).Set(float64(value.cpu) / milli)
		vec.WithLabelValues(node, string(corev1.ResourceMemory)).Set(float64(value.memory))
	}
}

func (m *Metrics) forget(node string) {
	if m == nil {
		return
	}
	for _, vec := range []*metrics.GaugeVec{m.effective, m.balloon} {
		vec.DeleteLabelValues(node, string(corev1.ResourceCPU))
		vec.DeleteLabelValues(node, string(corev1.ResourceMemory))
	}
}

func (m *Metrics) reset() {
	if m == nil {
		return
	}
	m.effective.Reset()
	m.balloon.Reset()
}
