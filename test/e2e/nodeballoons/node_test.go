// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestNodeComesLater has a NodeBalloon before its node, whose kubelet registers it with the startup taint: no pod slips in.
func TestNodeComesLater(t *testing.T) {
	t.Parallel()
	const node = "n-late"
	setBalloon(t, node, holds("600m"))
	balloon := waitFor(t, node, v1alpha1.ReasonPending, "")
	if c := meta.FindStatusCondition(balloon.Status.Conditions, v1alpha1.NodeBalloonNodePresent); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, node) {
		t.Errorf("the condition NodePresent is %+v, want it false with a message about the node", c)
	}
	workload(t, "early", node, "600m")
	seen := watchTaint(t, node)
	startNode(t, node, "--register-with-taints="+startupTaint+"=:NoSchedule")
	poll.Eventually(t, patience, "the node has the taint", func(context.Context) error {
		if n, _ := seen.count(); n == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	balloon = waitFor(t, node, v1alpha1.ReasonSettled, "600m")
	if !meta.IsStatusConditionTrue(balloon.Status.Conditions, v1alpha1.NodeBalloonNodePresent) {
		t.Errorf("the conditions are %+v, want the node to be present", balloon.Status.Conditions)
	}
	seen.waitNone(t)
	if n, _ := seen.count(); n != 1 {
		t.Errorf("the node was tainted %d times, want once", n)
	}
	poll.Eventually(t, patience, "the scheduler has looked at the node without the taint", func(ctx context.Context) error { return unschedulable(ctx, "early") })
}

// TestNodeIsAnotherOne deletes a node, and lets a kubelet register another one of the same name.
func TestNodeIsAnotherOne(t *testing.T) {
	t.Parallel()
	const node = "n-again"
	kubelet := startNode(t, node)
	setBalloon(t, node, holds("300m"))
	before := waitFor(t, node, v1alpha1.ReasonSettled, "300m")
	kubelet.Kill()
	if err := host.Kubernetes.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := waitFor(t, node, v1alpha1.ReasonPending, "")
	if meta.IsStatusConditionTrue(gone.Status.Conditions, v1alpha1.NodeBalloonNodePresent) || gone.Status.NodeUID != "" || gone.Status.Allocated != nil {
		t.Errorf("without a node the status is %+v", gone.Status)
	}
	if gone.UID != before.UID || gone.Generation != before.Generation {
		t.Error("the NodeBalloon went with its node")
	}
	startNode(t, node)
	after := waitFor(t, node, v1alpha1.ReasonSettled, "300m")
	current, err := host.Kubernetes.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.Status.NodeUID == before.Status.NodeUID || after.Status.NodeUID != current.UID {
		t.Errorf("the status is about node %s, want %s", after.Status.NodeUID, current.UID)
	}
}

// TestKubeletsShareAMachine is a story of the KEP: the machine has one CPU, and each of its kubelets believes that all of it is its own.
// Balloons leave each a quarter.
func TestKubeletsShareAMachine(t *testing.T) {
	t.Parallel()
	const kubelets = 4
	one := func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"machine": "one"} }
	for i := range kubelets {
		node := fmt.Sprintf("n-quarter-%d", i)
		startNode(t, node, "--node-labels=machine=one", "--register-with-taints="+startupTaint+"=:NoSchedule")
		setBalloon(t, node, v1alpha1.NodeBalloonSpec{NodeSize: list("250m", "960Mi")})
	}
	for i := range kubelets {
		waitFor(t, fmt.Sprintf("n-quarter-%d", i), v1alpha1.ReasonSettled, "750m")
	}
	const pods, fit = 12, 8
	for i := range pods {
		workload(t, fmt.Sprintf("sharer-%d", i), "", "100m", one)
	}
	poll.Eventually(t, patience, "the scheduler has placed what fits", func(ctx context.Context) error {
		placed, waiting := map[string]int{}, 0
		for i := range pods {
			name := fmt.Sprintf("sharer-%d", i)
			pod, err := host.Kubernetes.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
			switch {
			case err != nil:
				return err
			case pod.Status.Phase == corev1.PodRunning:
				placed[pod.Spec.NodeName]++
			case unschedulable(ctx, name) == nil:
				waiting++
			}
		}
		for node, n := range placed {
			if n > fit/kubelets {
				t.Fatalf("%d pods are on %s: more than a quarter of the machine", n, node)
			}
		}
		if waiting != pods-fit || len(placed) != kubelets {
			return fmt.Errorf("%v are placed, and %d wait", placed, waiting)
		}
		return nil
	})
	var sum resource.Quantity
	for i := range kubelets {
		balloon, err := annex.NodeV1alpha1().NodeBalloons().Get(t.Context(), fmt.Sprintf("n-quarter-%d", i), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(balloon.Status.Effective[corev1.ResourceCPU])
	}
	if sum.Cmp(resource.MustParse("1")) != 0 {
		t.Errorf("the nodes have %s CPUs together, want the machine's one", sum.String())
	}
}
