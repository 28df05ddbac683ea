// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

// resizing judges a balloon that has been granted so much.
func (d *decision) resizing(granted size) {
	m := &d.change.memory
	asks := requested(d.pod)
	switch {
	case granted == d.wish && asks == d.wish && answered(d.pod):
		m.waiting, m.asked, m.why = time.Time{}, time.Time{}, ""
		d.settled(v1alpha1.ReasonSettled, "")
	case !d.allocatable.covers(d.wish):
		// The API would refuse it each time.
		d.giveUp(asks, granted)
		d.settled(v1alpha1.ReasonInfeasible, fmt.Sprintf("the balloon shall hold %s, and the node has %s allocatable", d.wish, d.allocatable))
	case critical(d.pod) && !granted.covers(d.wish):
		// The kubelet would kill pods for it.
		d.giveUp(asks, granted)
		d.settled(v1alpha1.ReasonInfeasible, fmt.Sprintf(
			"the balloon's pod %s has a priority that is critical to the system, so the kubelet would kill other pods when it grows; use the class %s", d.pod.Name, Name))
	case asks == d.wish:
		d.asked(granted)
	default:
		d.ask(asks, granted)
	}
}

// ask requests the wished size, unless it is known that this leads nowhere.
func (d *decision) ask(asks, granted size) {
	m := &d.change.memory
	reverted := d.lasting() == v1alpha1.ReasonReverted || d.balloon != nil && m.reverted == d.attempt()
	switch {
	case m.why != "" && d.now.Sub(m.refused) < m.retry():
		d.giveUp(asks, granted)
		d.lookAgain(m.retry() - d.now.Sub(m.refused))
		d.settled(v1alpha1.ReasonInfeasible, m.why)
	case reverted && !granted.covers(d.wish):
		d.giveUp(asks, granted)
		d.settled(v1alpha1.ReasonReverted, d.revertedMessage())
	case d.regaining(granted) && !d.holds():
		d.fit(asks, granted)
	default:
		d.request(d.wish)
		m.asked, m.waiting = d.now, time.Time{}
		if before := sizeOf(d.before.Allocatable); before != (size{}) && before != d.allocatable {
			m.changed = d.now
		}
		d.trying(granted, fmt.Sprintf("resizing the balloon from %s to %s", granted, d.wish))
	}
}

// asked waits for the kubelet's answer to the request for the wished size.
func (d *decision) asked(granted size) {
	m := &d.change.memory
	if m.asked.IsZero() {
		m.asked = d.now
	}
	pending := condition(d.pod, corev1.PodResizePending)
	if pending == nil || d.pod.Status.ObservedGeneration < d.pod.Generation && pending.ObservedGeneration < d.pod.Generation {
		d.unanswered(granted)
		return
	}
	switch pending.Reason {
	case corev1.PodReasonInfeasible:
		m.refused, m.why, m.changed = d.now, messageOf(pending), time.Time{}
		d.giveUp(d.wish, granted)
		d.lookAgain(retryRefused)
		d.settled(v1alpha1.ReasonInfeasible, m.why)
	case corev1.PodReasonDeferred:
		d.deferred(granted, messageOf(pending))
	default:
		d.unanswered(granted)
	}
}

func messageOf(pending *corev1.PodCondition) string {
	if pending.Message == "" {
		return "the kubelet answers " + pending.Reason
	}
	return pending.Message
}

func (d *decision) unanswered(granted size) {
	message := fmt.Sprintf("resizing the balloon from %s to %s", granted, d.wish)
	if waited := d.now.Sub(d.change.memory.asked); waited >= answerTime {
		message += "; the kubelet has not answered yet: it may be away, or unable to resize pods in place, which takes Kubernetes 1.35 or later on the node"
	} else {
		d.lookAgain(answerTime - waited)
	}
	d.trying(granted, message)
}

// trying describes a resize that is under way. What was refused before stays so until it is granted.
func (d *decision) trying(granted size, message string) {
	if why := d.change.memory.why; why != "" {
		d.settled(v1alpha1.ReasonInfeasible, why)
		return
	}
	d.settled(d.unlessRegained(v1alpha1.ReasonResizing, granted), message)
}

// deferred decides how long a balloon waits for room. A shrink needs none: the kubelet defers it under pressure on disk or PIDs, and
// the deadline is for balloons that grow.
func (d *decision) deferred(granted size, message string) {
	m := &d.change.memory
	m.why = ""
	if granted.covers(d.wish) {
		d.settled(v1alpha1.ReasonResizing, fmt.Sprintf("resizing the balloon from %s to %s; the kubelet has deferred the shrink: %s", granted, d.wish, message))
		return
	}
	if m.waiting.IsZero() {
		m.waiting = d.now
	}
	if d.holds() {
		d.settled(d.unlessRegained(v1alpha1.ReasonDeferred, granted), message)
		return
	}
	if d.regaining(granted) {
		d.fit(d.wish, granted)
		return
	}
	deadline := time.Duration(ptr.Deref(d.balloon.Spec.ReclaimDeadlineSeconds, v1alpha1.DefaultReclaimDeadlineSeconds)) * time.Second
	if left := deadline - d.now.Sub(m.waiting); left > 0 {
		d.lookAgain(left)
		d.settled(v1alpha1.ReasonDeferred, message)
		return
	}
	m.reverted = d.attempt()
	d.giveUp(d.wish, granted)
	d.settled(v1alpha1.ReasonReverted, d.revertedMessage())
}

func (d *decision) attempt() attempt { return attempt{d.balloon.Generation, d.allocatable} }

// holds reports whether the balloon keeps its request until the kubelet grants it. Without a NodeBalloon there is no deadline.
func (d *decision) holds() bool {
	return d.balloon == nil || ptr.Deref(d.balloon.Spec.ReclaimPolicy, v1alpha1.ReclaimRevert) == v1alpha1.ReclaimHold
}

func (d *decision) revertedMessage() string {
	return fmt.Sprintf("the node had no room for %s by the deadline; it is tried again when spec or the node's allocatable changes", d.wish)
}

// regaining tells whether the balloon is smaller than it was, by nobody's wish.
func (d *decision) regaining(granted size) bool {
	return d.balloon != nil && !granted.covers(d.wish) && d.displaced()
}

func (d *decision) unlessRegained(reason string, granted size) string {
	if d.regaining(granted) {
		return v1alpha1.ReasonDisplaced
	}
	return reason
}

// fit asks for the most that there is room for, and looks again from time to time.
func (d *decision) fit(asks, granted size) {
	d.lookAgain(retryFit)
	if d.others == nil {
		d.needOthers = true
		return
	}
	fits := d.wish.atMost(d.allocatable.less(*d.others)).atLeast(granted.atMost(d.wish))
	if fits != asks {
		d.request(fits)
	}
	d.settled(v1alpha1.ReasonDisplaced, fmt.Sprintf("other pods have taken what the balloon held; of %s it asks for what there is room for, %s", d.wish, fits))
}

// giveUp has the balloon ask for no more than it has.
func (d *decision) giveUp(asks, granted size) {
	if asks != granted {
		d.request(granted)
	}
}

func (d *decision) request(s size) { d.resize = &s }
