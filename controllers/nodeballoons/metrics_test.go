// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
)

// TestMetricsCountCoresAndBytes measures one node after another view of it.
func TestMetricsCountCoresAndBytes(t *testing.T) {
	t.Parallel()
	holds := size{1500, 2 * gi}
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	unanswered := func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }
	const effectiveCPU, effectiveMemory = "annex_node_balloon_effective_allocatable/cpu", "annex_node_balloon_effective_allocatable/memory"
	const balloonCPU, balloonMemory = "annex_node_balloon_allocated/cpu", "annex_node_balloon_allocated/memory"
	inflated := map[string]float64{effectiveCPU: 2.5, effectiveMemory: 6 * gi, balloonCPU: 1.5, balloonMemory: 2 * gi}
	empty := map[string]float64{effectiveCPU: 4, effectiveMemory: 8 * gi, balloonCPU: 0, balloonMemory: 0}

	for name, tc := range map[string]struct {
		view view
		want map[string]float64
	}{
		"balloon":                         {view{node: testNode(), pod: testPod(holds, holds)}, inflated},
		"balloon that is deleted":         {view{node: testNode(), dying: testPod(holds, holds)}, inflated},
		"next pod that holds nothing yet": {view{node: testNode(), dying: testPod(holds, holds), pod: testPod(holds, size{}, unanswered)}, inflated},
		"next pod":                        {view{node: testNode(), dying: testPod(size{9, 9}, size{9, 9}), pod: testPod(holds, holds)}, inflated},
		"balloon that has failed":         {view{node: testNode(), pod: testPod(holds, holds, ended)}, empty},
		"no balloon":                      {view{node: testNode()}, empty},
		"no node":                         {view{}, map[string]float64{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, registry := NewMetrics(), metrics.NewKubeRegistry()
			if err := m.Register(registry.Register); err != nil {
				t.Fatal(err)
			}
			c := &Controller{options: Options{Metrics: m}}
			c.measure("n", view{node: testNode(), pod: testPod(size{7, 7}, size{7, 7})})
			c.measure("n", tc.view)
			if diff := cmp.Diff(tc.want, gather(t, registry)); diff != "" {
				t.Errorf("metrics (-want,+got):\n%s", diff)
			}
			m.reset()
			if left := gather(t, registry); len(left) > 0 {
				t.Errorf("after the process has ceased to lead there are %v", left)
			}
		})
	}
}

// gather returns the metrics of node n by name and resource.
func gather(t *testing.T, registry metrics.KubeRegistry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "resource" {
					out[family.GetName()+"/"+label.GetValue()] = metric.GetGauge().GetValue()
				}
			}
		}
	}
	return out
}
