// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

const (
	// retryRefused is the least time between two attempts at a size that was refused for good.
	retryRefused = time.Minute
	// retryUnseen is the same for so long after a change of the node as kube-apiserver may judge by what the node was before: it learns of
	// it when this controller does, or later.
	retryUnseen = 2 * time.Second
	unseenTime  = 10 * time.Second
	// retryFit is how often a balloon that was displaced looks for room.
	retryFit = 10 * time.Second
	// answerTime is how long a kubelet may take to answer a resize before people are told that it does not.
	answerTime = 30 * time.Second
)

// change is what is to be done about a node.
type change struct {
	// resize the balloon's pod to this; nil if it is not to be touched.
	resize *size
	// remove the balloon's pod, which has ended.
	remove bool
	// taint and untaint the node.
	taint, untaint bool
	// needOthers asks to be decided again with what the other pods on the node request.
	needOthers bool
	// status is what that of the NodeBalloon shall be; nil if there is none.
	status *v1alpha1.NodeBalloonStatus
	// memory is what is to be remembered.
	memory memory
	// after is when to look again even if nothing changes; 0 for never.
	after time.Duration
}

// decision is one run of next.
type decision struct {
	view
	change
	// before is the status as it was, if it was about this node; otherwise it is empty.
	before v1alpha1.NodeBalloonStatus
	// allocatable is the node's, and wish how large the balloon shall be.
	allocatable, wish size
}

// next decides what is to be done about a node.
func next(v view) change {
	d := &decision{view: v}
	d.change.memory = v.memory
	if v.balloon != nil {
		if v.node != nil && v.balloon.Status.NodeUID == v.node.UID {
			d.before = v.balloon.Status
		}
		d.status = &v1alpha1.NodeBalloonStatus{
			ObservedGeneration: v.balloon.Generation,
			// Conditions keep the times of their last changes, also when the node is another one.
			Conditions: v.balloon.Status.DeepCopy().Conditions,
		}
	}
	if v.node == nil {
		d.absent()
		return d.change
	}
	d.allocatable = sizeOf(v.node.Status.Allocatable)
	d.wish = floor()
	if v.balloon != nil && !v.removing {
		d.wish = wanted(v.balloon.Spec, d.allocatable)
	}
	d.present()
	switch {
	case v.pod == nil:
		d.withoutPod()
	case ended(v.pod):
		d.remove = true
		d.lost(fmt.Sprintf("the balloon's pod %s has failed: %s", v.pod.Name, failure(v.pod)))
	default:
		d.withPod()
	}
	d.settleTaint()
	return d.change
}

// absent describes a NodeBalloon without a node.
func (d *decision) absent() {
	d.change.memory = memory{}
	if d.status == nil {
		return
	}
	d.set(v1alpha1.NodeBalloonNodePresent, metav1.ConditionFalse, "NodeNotFound",
		fmt.Sprintf("there is no node %s; the balloon gets its size when the node comes", d.name))
	d.settled(v1alpha1.ReasonPending, "there is no node of this name")
}

func (d *decision) present() {
	if d.status == nil {
		return
	}
	d.set(v1alpha1.NodeBalloonNodePresent, metav1.ConditionTrue, "NodeFound", "")
	d.status.NodeUID = d.node.UID
	d.status.Allocatable = d.allocatable.list()
	d.status.Effective = d.allocatable.list()
}

// withoutPod waits for a pod.
func (d *decision) withoutPod() {
	d.change.memory = memory{}
	if d.dying != nil {
		// Until it has ended, what it holds is held.
		held := requested(d.dying)
		if granted, ok := allocated(d.dying); ok {
			held = granted
		}
		d.hold(d.dying.Name, held)
		d.settled(d.unlessDisplaced(v1alpha1.ReasonPending), fmt.Sprintf("the balloon's pod %s is being deleted, and the next one is brought to the size", d.dying.Name))
		return
	}
	if held := sizeOf(d.before.Allocated); d.wish != floor() && (held != size{} && held != floor() || d.displaced()) {
		d.lost("the balloon's pod is gone, and other pods may take what it held until the next one has it")
		return
	}
	d.settled(v1alpha1.ReasonPending, fmt.Sprintf(
		"the node has no balloon pod: there must be a DaemonSet in kube-system whose pods have the label %s and tolerate the node's taints", label))
}

// lost describes a balloon that no longer holds what it held, by nobody's wish.
func (d *decision) lost(message string) {
	d.settled(v1alpha1.ReasonDisplaced, message)
}

func failure(pod *corev1.Pod) string {
	switch {
	case pod.Status.Message != "":
		return pod.Status.Message
	case pod.Status.Reason != "":
		return pod.Status.Reason
	}
	return "its phase is " + string(pod.Status.Phase)
}

// withPod brings the balloon to its size.
func (d *decision) withPod() {
	d.change.memory = d.view.memory.about(string(d.pod.UID), d.wish)
	if container(d.pod) == nil {
		d.settled(v1alpha1.ReasonPending, fmt.Sprintf("pod %s is labelled as a balloon and has no container %s; take the label from it, or name the container so", d.pod.Name, containerName))
		return
	}
	granted, ok := allocated(d.pod)
	if !ok {
		d.starting()
		return
	}
	d.hold(d.pod.Name, granted)
	d.resizing(granted)
}

// starting waits for the kubelet to admit the pod. It must not be resized before: the kubelet would judge it by its new size, and fail
// it if that does not fit.
func (d *decision) starting() {
	message := fmt.Sprintf("the balloon's pod %s is being started", d.pod.Name)
	for _, c := range d.pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Message != "" {
			message = fmt.Sprintf("the balloon's pod %s is not scheduled: %s", d.pod.Name, c.Message)
		}
	}
	if d.status != nil {
		d.status.PodName = d.pod.Name
	}
	if d.pod.Spec.NodeName != "" && d.pod.Status.Phase == corev1.PodRunning && d.pod.Status.ObservedGeneration == 0 {
		message = fmt.Sprintf("the kubelet does not say what it has allocated to pod %s; resizing pods in place takes Kubernetes 1.35 or later on the node", d.pod.Name)
	}
	d.settled(d.unlessDisplaced(v1alpha1.ReasonPending), message)
}

// hold notes what the balloon has.
func (d *decision) hold(pod string, has size) {
	if d.status == nil {
		return
	}
	d.status.PodName = pod
	d.status.Allocated = has.list()
	d.status.Effective = d.allocatable.less(has).list()
}

// displaced tells whether the balloon had lost what it held, and has not regained it for the wish it has.
func (d *decision) displaced() bool {
	// Where a pod takes the place of another at once, nobody sees that there was none.
	if replaced := d.pod != nil && d.before.PodName != "" && d.before.PodName != d.pod.Name; replaced {
		return sizeOf(d.before.Allocated) != floor()
	}
	c := meta.FindStatusCondition(d.before.Conditions, v1alpha1.NodeBalloonSettled)
	return c != nil && c.Reason == v1alpha1.ReasonDisplaced && d.before.ObservedGeneration == d.balloon.Generation
}

func (d *decision) unlessDisplaced(reason string) string {
	if d.balloon != nil && d.displaced() {
		return v1alpha1.ReasonDisplaced
	}
	return reason
}

// lasting is the verdict on the present wish that status has, if it still holds: spec and node are as they were.
func (d *decision) lasting() string {
	c := meta.FindStatusCondition(d.before.Conditions, v1alpha1.NodeBalloonSettled)
	if c == nil || d.balloon == nil || d.before.ObservedGeneration != d.balloon.Generation ||
		!equality.Semantic.DeepEqual(d.before.Allocatable, d.allocatable.list()) {
		return ""
	}
	return c.Reason
}

func (d *decision) settled(reason, message string) {
	status := metav1.ConditionFalse
	if reason == v1alpha1.ReasonSettled {
		status = metav1.ConditionTrue
	}
	if d.status != nil && d.removing {
		reason, status = v1alpha1.ReasonPending, metav1.ConditionFalse
		message = "balloons are deflated and removed, since the controllers run with --node-balloons=Remove"
	}
	d.set(v1alpha1.NodeBalloonSettled, status, reason, message)
}

func (d *decision) set(kind string, status metav1.ConditionStatus, reason, message string) {
	if d.status == nil {
		return
	}
	meta.SetStatusCondition(&d.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: d.balloon.Generation, LastTransitionTime: metav1.NewTime(d.now),
	})
}

func (d *decision) lookAgain(after time.Duration) { d.after = max(after, time.Millisecond) }
