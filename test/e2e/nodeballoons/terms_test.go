// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/controllers/nodeballoons"
	"github.com/kube-annex/annex/test/framework/poll"
)

// restart stops the controllers as a user does and starts them in another mode.
func restart(t *testing.T, mode string) {
	t.Helper()
	if err := controllers.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := startControllers(mode); err != nil {
		t.Fatal(err)
	}
}

// waitWorking waits until the controllers have looked at a NodeBalloon that is made for that, which they do after all that were there.
func waitWorking(t *testing.T, name string) {
	t.Helper()
	setBalloon(t, name, holds("1m"))
	waitFor(t, name, v1alpha1.ReasonPending, "")
}

// TestControllersComeAndGo is not parallel: it stops the controllers that all tests need.
func TestControllersComeAndGo(t *testing.T) {
	const node = "n-terms"
	setBalloon(t, node, holds("300m"))
	before := waitFor(t, node, v1alpha1.ReasonSettled, "300m")
	pod := balloonPod(t, node)

	// Without controllers the node keeps its size, and those that come next find nothing to do.
	controllers.Kill()
	killed := time.Now()
	if got := balloonPod(t, node); got.Generation != pod.Generation || got.UID != pod.UID {
		t.Errorf("without controllers the balloon's pod is at generation %d, want %d", got.Generation, pod.Generation)
	}
	if err := startControllers("On"); err != nil {
		t.Fatal(err)
	}
	waitWorking(t, "no-node-1")
	if n := resizes(t, pod.Name, killed); n != 0 {
		t.Errorf("a new term resized a balloon %d times that had its size", n)
	}
	if got := waitFor(t, node, v1alpha1.ReasonSettled, "300m"); got.ResourceVersion != before.ResourceVersion {
		t.Errorf("a new term has written the status of a balloon that had its size (-before,+after):\n%+v\n%+v", before.Status, got.Status)
	}

	t.Run("Off leaves everything as it is", func(t *testing.T) { off(t, node) })
	t.Run("Remove restores the size of every node", func(t *testing.T) { remove(t, node) })

	restart(t, "On")
	waitFor(t, node, v1alpha1.ReasonSettled, "400m")
}

func off(t *testing.T, node string) {
	restart(t, "Off")
	restarted := time.Now()
	pod := balloonPod(t, node)
	setBalloon(t, node, holds("400m"))
	poll.Eventually(t, patience, "the controllers lead what there is to lead", func(ctx context.Context) error {
		lease, err := host.Kubernetes.CoordinationV1().Leases("annex-system").Get(ctx, "annex-observer", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(restarted) {
			return errors.New("nobody leads the observer")
		}
		return nil
	})
	if got := balloonPod(t, node); got.Generation != pod.Generation {
		t.Error("the balloon was resized by controllers that shall leave it as it is")
	}
	if n := len(requests(t, restarted)); n != 0 {
		t.Errorf("controllers that shall leave balloons as they are sent %d requests about them: %+v", n, requests(t, restarted))
	}
	balloon, err := annex.NodeV1alpha1().NodeBalloons().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if balloon.Status.ObservedGeneration >= balloon.Generation {
		t.Error("the status was written by controllers that shall leave it as it is")
	}
	restart(t, "On")
	waitFor(t, node, v1alpha1.ReasonSettled, "400m")
}

func remove(t *testing.T, node string) {
	restart(t, "Remove")
	poll.Eventually(t, patience, "there are no balloons any more", func(ctx context.Context) error {
		pods, err := host.Kubernetes.CoreV1().Pods(nodeballoons.Namespace).List(ctx, metav1.ListOptions{LabelSelector: nodeballoons.Label + "=true"})
		if err != nil {
			return err
		}
		sets, err := host.Kubernetes.AppsV1().DaemonSets(nodeballoons.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(pods.Items)+len(sets.Items) != 0 {
			return fmt.Errorf("there are %d pods and %d DaemonSets", len(pods.Items), len(sets.Items))
		}
		_, err = host.Kubernetes.SchedulingV1().PriorityClasses().Get(ctx, nodeballoons.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the PriorityClass is there (%w)", err)
		}
		return nil
	})
	poll.Eventually(t, patience, "the status says that the node has its size", func(ctx context.Context) error {
		balloon, err := annex.NodeV1alpha1().NodeBalloons().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		settled := meta.FindStatusCondition(balloon.Status.Conditions, v1alpha1.NodeBalloonSettled)
		if cpu := balloon.Status.Effective[corev1.ResourceCPU]; cpu.Cmp(balloon.Status.Allocatable[corev1.ResourceCPU]) != 0 ||
			settled.Status != metav1.ConditionFalse || !strings.Contains(settled.Message, "--node-balloons=Remove") {
			return fmt.Errorf("the effective cpu is %s: %+v", cpu.String(), settled)
		}
		return nil
	})
}
