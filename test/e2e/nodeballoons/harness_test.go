// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/controllers/nodeballoons"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = time.Minute
	floorCPU = "1m"
)

func command(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("annex %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// waitServed waits until NodeBalloons are served, and all nodes have joined.
func waitServed(ctx context.Context) error {
	return poll.Until(ctx, patience, func(ctx context.Context) error {
		_, err := annex.NodeV1alpha1().NodeBalloons().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		list, err := host.Kubernetes.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) != len(nodes) {
			err = fmt.Errorf("there are %d nodes, want %d", len(list.Items), len(nodes))
		}
		return err
	})
}

// setBalloon makes or changes the NodeBalloon of a node, and removes it at the end of the test.
func setBalloon(t *testing.T, node string, spec v1alpha1.NodeBalloonSpec) {
	t.Helper()
	balloons := annex.NodeV1alpha1().NodeBalloons()
	current, err := balloons.Get(t.Context(), node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = balloons.Create(t.Context(), &v1alpha1.NodeBalloon{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: spec}, metav1.CreateOptions{})
		t.Cleanup(func() {
			atEnd(t, func(ctx context.Context) error { return balloons.Delete(ctx, node, metav1.DeleteOptions{}) })
		})
	} else if err == nil {
		current.Spec = spec
		_, err = balloons.Update(t.Context(), current, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// holds is a spec in balloon mode.
func holds(cpu string) v1alpha1.NodeBalloonSpec {
	return v1alpha1.NodeBalloonSpec{BalloonSize: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
}

// waitFor waits until a NodeBalloon has a reason and holds so much cpu, as its kubelet says.
func waitFor(t *testing.T, node, reason, cpu string) *v1alpha1.NodeBalloon {
	t.Helper()
	var balloon *v1alpha1.NodeBalloon
	poll.Eventually(t, patience, fmt.Sprintf("%s is %s with %s", node, reason, cpu), func(ctx context.Context) (err error) {
		if balloon, err = annex.NodeV1alpha1().NodeBalloons().Get(ctx, node, metav1.GetOptions{}); err != nil {
			return err
		}
		settled := meta.FindStatusCondition(balloon.Status.Conditions, v1alpha1.NodeBalloonSettled)
		if settled == nil || settled.Reason != reason || settled.ObservedGeneration != balloon.Generation {
			return fmt.Errorf("at generation %d the condition is %+v", balloon.Generation, settled)
		}
		if has := balloon.Status.Allocated[corev1.ResourceCPU]; cpu != "" && has.Cmp(resource.MustParse(cpu)) != 0 {
			return fmt.Errorf("it holds %s", has.String())
		}
		return nil
	})
	return balloon
}

// startNode starts a kubelet for one test, after which its node is gone.
func startNode(t *testing.T, name string, args ...string) *cluster.Process {
	t.Helper()
	kubelet, err := host.StartNode(name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kubelet.Kill()
		atEnd(t, func(ctx context.Context) error {
			return host.Kubernetes.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		})
	})
	return kubelet
}

// atEnd cleans up.
func atEnd(t *testing.T, remove func(context.Context) error) {
	t.Helper()
	if err := remove(context.WithoutCancel(t.Context())); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// balloonPod returns the pod of a node's balloon, and waits until it runs.
func balloonPod(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	poll.Eventually(t, patience, node+" has a balloon pod", func(ctx context.Context) error {
		list, err := host.Kubernetes.CoreV1().Pods(nodeballoons.Namespace).List(ctx, metav1.ListOptions{LabelSelector: nodeballoons.Label + "=true"})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.Spec.NodeName == node && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				pod = p
				return nil
			}
		}
		return errors.New("there is none")
	})
	return pod
}

// workload makes a pod that may run on the node only, and removes it at the end of the test.
func workload(t *testing.T, name, node, cpu string, edit ...func(*corev1.Pod)) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{corev1.LabelHostname: node},
			Containers: []corev1.Container{{
				Name: "main", Image: "example.com/main:1",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
			TerminationGracePeriodSeconds: ptr.To[int64](0),
		},
	}
	for _, f := range edit {
		f(pod)
	}
	poll.Eventually(t, patience, "pod "+name+" is made", func(ctx context.Context) error { // The namespace gets its service account soon.
		_, err := host.Kubernetes.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() { deleteWorkload(t, pod.Namespace, name) })
}

func deleteWorkload(t *testing.T, namespace, name string) {
	t.Helper()
	atEnd(t, func(ctx context.Context) error {
		return host.Kubernetes.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	})
}

func workloadUID(t *testing.T, name string) types.UID {
	t.Helper()
	pod, err := host.Kubernetes.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.UID
}

func waitRunning(t *testing.T, name string) time.Duration {
	t.Helper()
	return poll.Eventually(t, patience, "pod "+name+" runs", func(ctx context.Context) error {
		pod, err := host.Kubernetes.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s: %v", pod.Status.Phase, pod.Status.Conditions)
		}
		return err
	})
}
