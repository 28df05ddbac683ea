// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestHold keeps asking beyond the deadline, and what is asked for is kept from new pods. The node has one CPU.
func TestHold(t *testing.T) {
	t.Parallel()
	const node = "n-hold"
	setBalloon(t, node, holds("300m"))
	waitFor(t, node, v1alpha1.ReasonSettled, "300m")
	workload(t, "holder", node, "500m")
	waitRunning(t, "holder")
	wish := holds("600m")
	wish.ReclaimPolicy, wish.ReclaimDeadlineSeconds = ptr.To(v1alpha1.ReclaimHold), ptr.To[int32](1)
	setBalloon(t, node, wish)
	deferred := waitFor(t, node, v1alpha1.ReasonDeferred, "300m")
	since := meta.FindStatusCondition(deferred.Status.Conditions, v1alpha1.NodeBalloonSettled)
	if !strings.Contains(since.Message, "cpu") {
		t.Errorf("the message is %q, want the kubelet's, about cpu", since.Message)
	}

	// There are 200m free, and all of them are asked for.
	workload(t, "held-off", node, "150m")
	poll.Eventually(t, patience, "the scheduler has no room", func(ctx context.Context) error { return unschedulable(ctx, "held-off") })
	poll.Eventually(t, patience, "the deadline is over", func(context.Context) error {
		if left := 2*time.Second - time.Since(since.LastTransitionTime.Time); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	waitFor(t, node, v1alpha1.ReasonDeferred, "300m")
	if err := unschedulable(t.Context(), "held-off"); err != nil {
		t.Error(err)
	}
	deleteWorkload(t, metav1.NamespaceDefault, "holder")
	waitFor(t, node, v1alpha1.ReasonSettled, "600m")
	waitRunning(t, "held-off")
}

func unschedulable(ctx context.Context, name string) error {
	pod, err := host.Kubernetes.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, "Insufficient cpu") {
			return nil
		}
	}
	return fmt.Errorf("pod %s is on node %q: %+v", name, pod.Spec.NodeName, pod.Status.Conditions)
}

// TestRefusedResize has the API refuse a resize for good: that is said with the API's words, and tried again once a minute at most.
func TestRefusedResize(t *testing.T) {
	t.Parallel()
	const node, words = "n-refused", "not on this node"
	policies := host.Kubernetes.AdmissionregistrationV1()
	if _, err := policies.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/resize"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "object.spec.nodeName != '" + node + "'", Message: words}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		atEnd(t, func(ctx context.Context) error {
			return policies.ValidatingAdmissionPolicies().Delete(ctx, node, metav1.DeleteOptions{})
		})
		atEnd(t, func(ctx context.Context) error {
			return policies.ValidatingAdmissionPolicyBindings().Delete(ctx, node, metav1.DeleteOptions{})
		})
	})
	if _, err := policies.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: node, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := balloonPod(t, node)
	patch := []byte(`{"spec":{"containers":[{"name":"balloon","resources":{"requests":{"cpu":"2m"}}}]}}`)
	poll.Eventually(t, patience, "the policy is in force", func(ctx context.Context) error {
		_, err := host.Kubernetes.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "resize")
		if err == nil || !strings.Contains(err.Error(), words) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	began := time.Now()
	setBalloon(t, node, holds("300m"))
	balloon := waitFor(t, node, v1alpha1.ReasonInfeasible, floorCPU)
	if c := meta.FindStatusCondition(balloon.Status.Conditions, v1alpha1.NodeBalloonSettled); !strings.Contains(c.Message, words) {
		t.Errorf("the message is %q, want the API's", c.Message)
	}
	poke(t, pod)
	if n, took := resizes(t, pod.Name, began), time.Since(began); n != 1 && took < time.Minute {
		t.Errorf("the resize was tried %d times within %s, want once", n, took)
	}
	// Another wish is another matter.
	if err := policies.ValidatingAdmissionPolicyBindings().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the policy is no longer in force", func(ctx context.Context) error {
		_, err := host.Kubernetes.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "resize")
		return err
	})
	setBalloon(t, node, holds("200m"))
	waitFor(t, node, v1alpha1.ReasonSettled, "200m")
}

// TestCriticalPodsKillForTheirGrowth is why balloons have a class of their own: grown at system-node-critical, a pod has the kubelet kill
// whoever is in its way.
func TestCriticalPodsKillForTheirGrowth(t *testing.T) {
	t.Parallel()
	const node = "n-kills"
	kubelet := startNode(t, node)
	balloonPod(t, node)
	workload(t, "victim", node, "700m")
	waitRunning(t, "victim")
	workload(t, "like-a-balloon", node, "100m", func(pod *corev1.Pod) {
		pod.Namespace, pod.Spec.PriorityClassName = metav1.NamespaceSystem, "system-node-critical"
	})
	pods := host.Kubernetes.CoreV1().Pods(metav1.NamespaceSystem)
	poll.Eventually(t, patience, "the pod runs", func(ctx context.Context) error {
		pod, err := pods.Get(ctx, "like-a-balloon", metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return err
	})
	patch := []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"600m"}}}]}}`)
	if _, err := pods.Patch(t.Context(), "like-a-balloon", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize"); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the pod beside it is killed", func(ctx context.Context) error {
		pod, err := host.Kubernetes.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "victim", metav1.GetOptions{})
		if err != nil {
			return err
		}
		// Its restart policy is Always, and nobody has deleted it. What phase it ends in is up to the fake runtime.
		if pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	if said := `"Pod evicted successfully" pod="default/victim"`; !strings.Contains(kubelet.Log(), said) {
		t.Errorf("the kubelet's log does not say %s", said)
	}
}
