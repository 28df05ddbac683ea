// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// What balloons are known by.
const (
	// Namespace is where the balloons' pods are.
	Namespace = metav1.NamespaceSystem
	// Name is that of the DaemonSet and of its PriorityClass.
	Name = "node-balloon"
	// Label, with the value "true", is on every balloon pod: what such a pod requests does not exist.
	Label = "node.kubernetes.io/balloon"

	label         = Label + "=true"
	containerName = "balloon"
)

const (
	// priority is the highest that is not reserved for the system, under which kubelets kill no pod for the growth of another.
	priority = 1_000_000_000
	// A balloon that ends holds on for a while, in which its node can be tainted.
	preStopSeconds, graceSeconds = 5, 30
)

func labels() map[string]string { return map[string]string{Label: "true"} }

// priorityClass returns the class of balloons.
func priorityClass() *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{
		ObjectMeta:       metav1.ObjectMeta{Name: Name, Labels: labels()},
		Value:            priority,
		PreemptionPolicy: ptr.To(corev1.PreemptNever),
		Description:      "For balloons, which hold what shall not exist of a node. They preempt nothing; only pods that are critical to the system displace them.",
	}
}

// daemonSet returns the balloons of all nodes.
func daemonSet(image string) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: Namespace, Labels: labels()},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels()},
			// A new pod begins at the floor, so pods are not replaced unasked.
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels()},
				Spec: corev1.PodSpec{
					PriorityClassName:             Name,
					AutomountServiceAccountToken:  ptr.To(false),
					EnableServiceLinks:            ptr.To(false),
					TerminationGracePeriodSeconds: ptr.To[int64](graceSeconds),
					Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](65534),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name:      containerName,
						Image:     image,
						Resources: corev1.ResourceRequirements{Requests: floor().list()},
						ResizePolicy: []corev1.ContainerResizePolicy{
							{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
							{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.NotRequired},
						},
						Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: preStopSeconds}}},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
							Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
				},
			},
		},
	}
}
