// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/controllers/nodeballoons"
	"github.com/kube-annex/annex/test/framework/poll"
)

// simulate stands in for the kubelets of the nodes whose names begin so: it makes the nodes, with 4 CPUs and 8Gi each, and grants their
// balloons' pods whatever they ask for. The DaemonSet controller and the scheduler are real. With old, the kubelets are from before
// pods could be resized in place.
func simulate(t *testing.T, prefix string, n int, old bool) (names []string) {
	t.Helper()
	pods := host.Kubernetes.CoreV1().Pods(nodeballoons.Namespace)
	selector := metav1.ListOptions{LabelSelector: nodeballoons.Label + "=true"}
	w, err := pods.Watch(t.Context(), selector)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var answers sync.WaitGroup
		defer answers.Wait()
		slots := make(chan struct{}, 16)
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || event.Type == watch.Deleted || !strings.HasPrefix(pod.Spec.NodeName, prefix) {
				continue
			}
			slots <- struct{}{}
			answers.Go(func() {
				defer func() { <-slots }()
				if err := answer(t.Context(), pod, old); err != nil && t.Context().Err() == nil {
					t.Logf("the simulated kubelet: %v", err)
				}
			})
		}
	}()
	client := host.Kubernetes.CoreV1().Nodes()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, name := range names {
			if err := client.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
		left, err := pods.List(ctx, selector)
		if err != nil {
			t.Error(err)
		}
		for i := range left.Items {
			if pod := &left.Items[i]; strings.HasPrefix(pod.Spec.NodeName, prefix) {
				if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
				}
			}
		}
		w.Stop()
		<-done
	})
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		node.Status.Capacity = list("4", "8Gi")
		node.Status.Capacity[corev1.ResourcePods] = resource.MustParse("110")
		node.Status.Allocatable = node.Status.Capacity
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		if _, err := client.Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// answer does with a pod what a kubelet does.
func answer(ctx context.Context, pod *corev1.Pod, old bool) error {
	pods := host.Kubernetes.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodRunning && (old || pod.Status.ObservedGeneration == pod.Generation) {
		return nil
	}
	status := corev1.ContainerStatus{
		Name: pod.Spec.Containers[0].Name, Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}
	pod = pod.DeepCopy()
	if !old {
		// The API resizes only what has resources in its status.
		status.AllocatedResources, status.Resources = pod.Spec.Containers[0].Resources.Requests, &pod.Spec.Containers[0].Resources
		pod.Status.ObservedGeneration = pod.Generation
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// setAllocatable is what happens when resources are plugged into a simulated node.
func setAllocatable(t *testing.T, name string, allocatable corev1.ResourceList) {
	t.Helper()
	client := host.Kubernetes.CoreV1().Nodes()
	poll.Eventually(t, patience, name+" has other resources", func(ctx context.Context) error {
		node, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for k, v := range allocatable {
			node.Status.Allocatable[k], node.Status.Capacity[k] = v, v
		}
		_, err = client.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
