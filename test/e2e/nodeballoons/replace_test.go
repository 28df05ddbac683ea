// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/controllers/nodeballoons"
	"github.com/kube-annex/annex/test/framework/poll"
)

// taints records when a node had the startup taint.
type taints struct {
	mu    sync.Mutex
	added []time.Time
	now   bool
}

func watchTaint(t *testing.T, node string) *taints {
	t.Helper()
	w, err := host.Kubernetes.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + node})
	if err != nil {
		t.Fatal(err)
	}
	seen := &taints{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			n, ok := event.Object.(*corev1.Node)
			if !ok {
				continue
			}
			has := slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == startupTaint })
			seen.mu.Lock()
			if has && !seen.now {
				seen.added = append(seen.added, time.Now())
			}
			seen.now = has
			seen.mu.Unlock()
		}
	}()
	t.Cleanup(func() { w.Stop(); <-done })
	return seen
}

func (s *taints) count() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.added), s.now
}

// deletePod deletes the pod of a balloon and waits for the next one. The node is tainted once.
func (s *taints) deletePod(t *testing.T, node string, grace *int64) {
	t.Helper()
	before := balloonPod(t, node)
	times, _ := s.count()
	deleted := time.Now()
	if err := host.Kubernetes.CoreV1().Pods(nodeballoons.Namespace).Delete(t.Context(), before.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the node is tainted", func(context.Context) error {
		if n, _ := s.count(); n != times+1 {
			return fmt.Errorf("it was tainted %d times", n-times)
		}
		return nil
	})
	s.mu.Lock()
	t.Logf("the node was tainted %s after the deletion", s.added[times].Sub(deleted))
	s.mu.Unlock()
	poll.Eventually(t, patience, "there is another pod", func(ctx context.Context) error {
		balloon, err := annex.NodeV1alpha1().NodeBalloons().Get(ctx, node, metav1.GetOptions{})
		if err == nil && (balloon.Status.PodName == before.Name || balloon.Status.PodName == "") {
			err = fmt.Errorf("the pod is %q", balloon.Status.PodName)
		}
		return err
	})
}

func (s *taints) waitNone(t *testing.T) {
	t.Helper()
	poll.Eventually(t, patience, "the node has no taint", func(context.Context) error {
		if _, now := s.count(); now {
			return errors.New("it has")
		}
		return nil
	})
}

// TestBalloonPodIsReplaced deletes the pod of a balloon while another pod waits for what it holds.
func TestBalloonPodIsReplaced(t *testing.T) {
	t.Parallel()
	const node = "n-replace"
	setBalloon(t, node, holds("600m"))
	waitFor(t, node, v1alpha1.ReasonSettled, "600m")
	workload(t, "sneaker", node, "600m")
	seen := watchTaint(t, node)
	seen.deletePod(t, node, nil)
	waitFor(t, node, v1alpha1.ReasonSettled, "600m")
	seen.waitNone(t)
	sneaker, err := host.Kubernetes.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "sneaker", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if sneaker.Spec.NodeName != "" {
		t.Error("a pod slipped in while the balloon's pod was replaced")
	}

	// Without grace there is a moment in which nothing holds the room.
	seen.deletePod(t, node, ptr.To[int64](0))
	poll.Eventually(t, patience, "the balloon has regained its size, or takes what is left", func(ctx context.Context) error {
		balloon, err := annex.NodeV1alpha1().NodeBalloons().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		settled := meta.FindStatusCondition(balloon.Status.Conditions, v1alpha1.NodeBalloonSettled)
		has := balloon.Status.Allocated[corev1.ResourceCPU]
		if settled.Reason == v1alpha1.ReasonSettled || settled.Reason == v1alpha1.ReasonDisplaced && has.MilliValue() == 400 {
			return nil
		}
		return fmt.Errorf("it holds %s: %+v", has.String(), settled)
	})
	seen.waitNone(t)
	deleteWorkload(t, metav1.NamespaceDefault, "sneaker")
	waitFor(t, node, v1alpha1.ReasonSettled, "600m")
}
