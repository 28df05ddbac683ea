// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

// TestCriticalPodDisplacesBalloon is what balloons cost on a stock cluster: they cannot be as critical as the system's own pods.
func TestCriticalPodDisplacesBalloon(t *testing.T) {
	t.Parallel()
	const node = "n-displace"
	setBalloon(t, node, holds("700m"))
	waitFor(t, node, v1alpha1.ReasonSettled, "700m")
	seen := watchTaint(t, node)
	workload(t, "critical", node, "600m", func(pod *corev1.Pod) {
		pod.Spec.PriorityClassName = "system-node-critical"
		pod.Namespace = "kube-system"
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	balloon := waitFor(t, node, v1alpha1.ReasonDisplaced, "400m")
	if n, _ := seen.count(); n != 1 {
		t.Errorf("the node was tainted %d times, want once", n)
	}
	if cpu := balloon.Status.Effective[corev1.ResourceCPU]; cpu.Cmp(resource.MustParse("600m")) != 0 {
		t.Errorf("the effective size is %s, want what the critical pod has", cpu.String())
	}
	deleteWorkload(t, "kube-system", "critical")
	waitFor(t, node, v1alpha1.ReasonSettled, "700m")
}
