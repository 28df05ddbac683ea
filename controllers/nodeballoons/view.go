// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

// view is all that a decision about a node depends on.
type view struct {
	// name is that of the node and of its NodeBalloon.
	name string
	now  time.Time
	// removing has all balloons deflated.
	removing bool
	// taint keeps pods away while a balloon does not hold what it should; nil if nothing does.
	taint *corev1.Taint

	// node and balloon are those of the name; nil if there is none.
	node    *corev1.Node
	balloon *v1alpha1.NodeBalloon
	// pod is the balloon's pod; nil if there is none, or only one that is being deleted, which is then dying.
	pod, dying *corev1.Pod
	// others is what all other pods on the node have requested; nil if nobody has asked for it yet.
	others *size

	memory
}

// memory is what the controller remembers of a node. A restart loses it.
type memory struct {
	// pod and wanted are what the rest is about.
	pod    string
	wanted size
	// generation is that of the pod since it was resized last; what is watched may not show it yet.
	generation int64
	// waiting is since when the balloon has waited for room, and asked since when for any answer; zero if it does not.
	waiting, asked time.Time
	// refused is when the API or the kubelet last refused a size for good, and why.
	refused time.Time
	why     string
	// changed is when the node was found to be another than status says, just before a size was asked for.
	changed time.Time
	// reverted is for which generation and node the balloon last went back; what is watched may not show it yet.
	reverted attempt
}

// attempt is what must change for a balloon to be tried again.
type attempt struct {
	generation  int64
	allocatable size
}

// about returns what is remembered of this pod and this wish; another begins anew.
func (m memory) about(pod string, wanted size) memory {
	switch {
	case m.pod != pod:
		return memory{pod: pod, wanted: wanted}
	case m.wanted != wanted:
		return memory{pod: pod, wanted: wanted, generation: m.generation}
	}
	return m
}

// retry is the least time between two attempts at a size that was refused.
func (m memory) retry() time.Duration {
	if !m.changed.IsZero() && m.refused.Sub(m.changed) < unseenTime {
		return retryUnseen
	}
	return retryRefused
}

// ahead tells whether the pod has been resized since it looked like this.
func (m memory) ahead(pod *corev1.Pod) bool {
	return pod != nil && m.pod == string(pod.UID) && pod.Generation < m.generation
}

// podsOf picks the pod that counts among those on a node.
func podsOf(pods []*corev1.Pod) (pod, dying *corev1.Pod) {
	for _, candidate := range pods {
		at := &pod
		if candidate.DeletionTimestamp != nil {
			at = &dying
		}
		if *at == nil || ended(*at) && !ended(candidate) || ended(*at) == ended(candidate) && (*at).CreationTimestamp.Before(&candidate.CreationTimestamp) {
			*at = candidate
		}
	}
	return pod, dying
}

// nodeOf is the node that a pod of a DaemonSet is on, or meant for.
func nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// requested is what the balloon's pod asks for.
func requested(pod *corev1.Pod) size {
	if c := container(pod); c != nil {
		return sizeOf(c.Resources.Requests)
	}
	return size{}
}

// allocated is what the kubelet has granted; false if it has not said so.
func allocated(pod *corev1.Pod) (size, bool) {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == containerName })
	if i < 0 || len(pod.Status.ContainerStatuses[i].AllocatedResources) == 0 {
		return size{}, false
	}
	return sizeOf(pod.Status.ContainerStatuses[i].AllocatedResources), true
}

func container(pod *corev1.Pod) *corev1.Container {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == containerName })
	if i < 0 {
		return nil
	}
	return &pod.Spec.Containers[i]
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// critical tells whether the kubelet would kill other pods to make room for this one, as it does from this priority on.
func critical(pod *corev1.Pod) bool {
	return pod.Spec.Priority != nil && *pod.Spec.Priority >= 2*priority
}

// answered tells whether the kubelet has seen the pod as it is. Kubelets before 1.34 do not say.
func answered(pod *corev1.Pod) bool {
	return pod.Status.ObservedGeneration == 0 || pod.Status.ObservedGeneration >= pod.Generation
}

// ended tells whether the pod's containers have ended for good, as those of evicted pods have.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}
