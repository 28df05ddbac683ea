// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestGrowAndShrink takes the balloon of one node through what may come of a resize. The node has one CPU.
func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	const node = "n-grow"
	setBalloon(t, node, holds("300m"))
	balloon := waitFor(t, node, v1alpha1.ReasonSettled, "300m")
	if cpu := balloon.Status.Effective[corev1.ResourceCPU]; cpu.MilliValue() != 700 {
		t.Errorf("the effective size is %s, want 700m", cpu.String())
	}

	// Room that is used is not taken from those who use it.
	workload(t, "worker", node, "500m")
	waitRunning(t, "worker")
	uid := workloadUID(t, "worker")
	wish := holds("600m")
	wish.ReclaimDeadlineSeconds = ptr.To[int32](3)
	setBalloon(t, node, wish)
	waitFor(t, node, v1alpha1.ReasonDeferred, "300m")
	waitFor(t, node, v1alpha1.ReasonReverted, "300m")
	if got := workloadUID(t, "worker"); got != uid {
		t.Errorf("the pod beside the balloon is another one")
	}
	waitRunning(t, "worker")
	// What was asked for in vain is free for others, and not asked for again.
	workload(t, "after", node, "150m")
	waitRunning(t, "after")
	pod := balloonPod(t, node)
	deleteWorkload(t, metav1.NamespaceDefault, "after")
	poke(t, pod)
	waitFor(t, node, v1alpha1.ReasonReverted, "300m")
	if now := balloonPod(t, node); now.Generation != pod.Generation {
		t.Error("a balloon that went back was resized although neither its spec nor the node has changed")
	}

	// What does not fit now fits when the balloon shrinks.
	workload(t, "waiting", node, "400m")
	poll.Eventually(t, patience, "the pod waits", func(ctx context.Context) error { return unschedulable(ctx, "waiting") })
	setBalloon(t, node, holds("50m"))
	waitFor(t, node, v1alpha1.ReasonSettled, "50m")
	waitRunning(t, "waiting")

	// Larger than the node: that is never tried.
	pod, began := balloonPod(t, node), time.Now()
	setBalloon(t, node, holds("4"))
	waitFor(t, node, v1alpha1.ReasonInfeasible, "50m")
	poke(t, pod)
	if n := resizes(t, pod.Name, began); n != 0 {
		t.Errorf("a size that the node cannot have was tried %d times", n)
	}
	if err := annex.NodeV1alpha1().NodeBalloons().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the balloon is deflated", func(context.Context) error {
		if cpu := balloonPod(t, node).Spec.Containers[0].Resources.Requests.Cpu(); cpu.String() != floorCPU {
			return fmt.Errorf("it asks for %s", cpu)
		}
		return nil
	})
}
