// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestManyNodes is not parallel: it counts what the controllers ask the cluster for.
func TestManyNodes(t *testing.T) {
	names := simulate(t, "many", *manyNodes, false)
	poll.Eventually(t, patience, "all balloons are there", func(ctx context.Context) error {
		pods, err := host.Kubernetes.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		there := 0
		for i := range pods.Items {
			if p := &pods.Items[i]; strings.HasPrefix(p.Spec.NodeName, "many-") && p.Status.Phase == corev1.PodRunning {
				there++
			}
		}
		if there != len(names) {
			return fmt.Errorf("there are %d", there)
		}
		return nil
	})
	began := time.Now()
	client := annex.NodeV1alpha1().NodeBalloons()
	for _, name := range names {
		spec := v1alpha1.NodeBalloonSpec{NodeSize: list("3", "6Gi")}
		if _, err := client.Create(t.Context(), &v1alpha1.NodeBalloon{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, name := range names {
			if err := client.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	poll.Eventually(t, patience, fmt.Sprintf("%d balloons are settled", len(names)), func(ctx context.Context) error {
		all, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		settled := 0
		for i := range all.Items {
			if b := &all.Items[i]; strings.HasPrefix(b.Name, "many-") && meta.IsStatusConditionTrue(b.Status.Conditions, v1alpha1.NodeBalloonSettled) {
				settled++
			}
		}
		if settled != len(names) {
			return fmt.Errorf("%d are settled", settled)
		}
		return nil
	})
	took := time.Since(began)
	// Two writes of status and one resize a node, and two events for each of two verdicts.
	kinds, seconds := map[string]int{}, map[int64]int{}
	sent := requests(t, began)
	for _, r := range sent {
		kinds[strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")]++
		seconds[r.Received.Unix()]++
	}
	busiest := 0
	for _, n := range seconds {
		busiest = max(busiest, n)
	}
	t.Logf("%d NodeBalloons settled in %s with %d requests, %v; at most %d in a second", len(names), took.Round(10*time.Millisecond), len(sent), kinds, busiest)
	for kind, most := range map[string]int{"pods/resize": 1, "nodeballoons/status": 3, "events": 6, "nodes": 0} {
		if slack := 5; kinds[kind] > most*len(names)+slack {
			t.Errorf("%d requests for %s, want at most %d a node", kinds[kind], kind, most)
		}
	}
	if burst := 200 + 100 + 50 + 50; busiest > burst {
		t.Errorf("%d requests in a second, want at most %d", busiest, burst)
	}
}

// TestAllocatableChanges plugs resources into nodes: in target mode the balloon takes them, in balloon mode it does not.
func TestAllocatableChanges(t *testing.T) {
	t.Parallel()
	names := simulate(t, "plugged", 2, false)
	target, fixed := names[0], names[1]
	setBalloon(t, target, v1alpha1.NodeBalloonSpec{NodeSize: list("3", "6Gi")})
	setBalloon(t, fixed, holds("1"))
	waitFor(t, target, v1alpha1.ReasonSettled, "1")
	waitFor(t, fixed, v1alpha1.ReasonSettled, "1")
	for _, name := range names {
		setAllocatable(t, name, list("8", "16Gi"))
	}
	balloon := waitFor(t, target, v1alpha1.ReasonSettled, "5")
	if cpu := balloon.Status.Effective[corev1.ResourceCPU]; cpu.Value() != 3 {
		t.Errorf("the effective size is %s, want what it was", cpu.String())
	}
	poll.Eventually(t, patience, "the status has the node's size", func(ctx context.Context) error {
		b, err := annex.NodeV1alpha1().NodeBalloons().Get(ctx, fixed, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if cpu := b.Status.Effective[corev1.ResourceCPU]; cpu.Value() != 7 {
			return fmt.Errorf("the effective size is %s", cpu.String())
		}
		return nil
	})
	waitFor(t, fixed, v1alpha1.ReasonSettled, "1")

	// Less than the balloon shall leave: it is deflated as far as it goes.
	setAllocatable(t, target, list("2", "4Gi"))
	waitFor(t, target, v1alpha1.ReasonSettled, floorCPU)
}

// TestOldKubelet has a kubelet that cannot resize pods in place: that is said, and not tried again and again.
func TestOldKubelet(t *testing.T) {
	t.Parallel()
	node := simulate(t, "old", 1, true)[0]
	began := time.Now()
	setBalloon(t, node, holds("1"))
	poll.Eventually(t, patience, "the condition says why", func(ctx context.Context) error {
		balloon, err := annex.NodeV1alpha1().NodeBalloons().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		settled := meta.FindStatusCondition(balloon.Status.Conditions, v1alpha1.NodeBalloonSettled)
		if settled == nil || settled.Reason != v1alpha1.ReasonPending || !strings.Contains(settled.Message, "Kubernetes 1.35") {
			return fmt.Errorf("it is %+v", settled)
		}
		return nil
	})
	pod := balloonPod(t, node)
	poke(t, pod)
	if n := resizes(t, pod.Name, began); n != 0 {
		t.Errorf("the pod was resized %d times", n)
	}
}

// poke changes a balloon's pod in ways that do not matter, and waits until the controllers have seen it.
func poke(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for i := range 10 {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/poked":"%d"}}}`, i)
		if _, err := host.Kubernetes.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitWorking(t, "no-node-of-"+pod.Name)
}

// TestFailedPodsAreDeleted fails the pod of a balloon again and again. The DaemonSet controller would let more time pass each time, 31 seconds
// in all.
func TestFailedPodsAreDeleted(t *testing.T) {
	t.Parallel()
	node := simulate(t, "failing", 1, false)[0]
	setBalloon(t, node, holds("2"))
	began := time.Now()
	for range 6 {
		waitFor(t, node, v1alpha1.ReasonSettled, "2")
		pod := balloonPod(t, node)
		status := []byte(`{"status":{"phase":"Failed","reason":"Evicted","message":"by a test"}}`)
		if _, err := host.Kubernetes.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
		poll.Eventually(t, patience, "the failed pod is gone", func(ctx context.Context) error {
			pods, err := host.Kubernetes.CoreV1().Pods(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name})
			if err == nil && len(pods.Items) != 0 {
				err = fmt.Errorf("it is %s", pods.Items[0].Status.Phase)
			}
			return err
		})
	}
	waitFor(t, node, v1alpha1.ReasonSettled, "2")
	if took := time.Since(began); took > 25*time.Second {
		t.Errorf("it took %s: somebody waited between the attempts", took)
	}
}
