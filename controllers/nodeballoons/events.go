// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

const (
	// waitingEvents is how many events may wait to be written; what is more is left out.
	waitingEvents = 4096
	eventTimeout  = 10 * time.Second
)

// events writes events. Repeated events are counted in the existing one, by the correlator of client-go's recorder. The recorder itself is no
// replacement: its goroutines and requests outlive the term of the leader, see TestWritingEventsEndsWithItsContext.
type events struct {
	clock   clock.PassiveClock
	waiting chan *corev1.Event
	client  corev1client.EventsGetter
}

func newEvents(client corev1client.EventsGetter, now clock.PassiveClock) *events {
	return &events{clock: now, waiting: make(chan *corev1.Event, waitingEvents), client: client}
}

// tell records an event, on the NodeBalloon and on its node, when the verdict on the balloon has become another. A verdict that stays is
// not repeated.
func (e *events) tell(ctx context.Context, balloon *v1alpha1.NodeBalloon, node *corev1.Node, after *v1alpha1.NodeBalloonStatus) {
	for _, kind := range []string{v1alpha1.NodeBalloonNodePresent, v1alpha1.NodeBalloonSettled} {
		before, now := meta.FindStatusCondition(balloon.Status.Conditions, kind), meta.FindStatusCondition(after.Conditions, kind)
		if now == nil || before != nil && before.Reason == now.Reason && !resettled(now, after, balloon) {
			continue
		}
		if kind == v1alpha1.NodeBalloonNodePresent && before == nil && now.Status == metav1.ConditionTrue {
			continue // Nothing has changed about the node.
		}
		severity := corev1.EventTypeNormal
		switch now.Reason {
		case v1alpha1.ReasonDeferred, v1alpha1.ReasonReverted, v1alpha1.ReasonInfeasible, v1alpha1.ReasonDisplaced:
			severity = corev1.EventTypeWarning
		}
		message := now.Message
		if now.Reason == v1alpha1.ReasonSettled {
			message = "the balloon holds " + sizeOf(after.Allocated).String() + "; the node's effective size is " + sizeOf(after.Effective).String()
		}
		reason := "Balloon" + now.Reason
		if kind == v1alpha1.NodeBalloonNodePresent {
			reason = now.Reason
		}
		e.add(ctx, &corev1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NodeBalloon", Name: balloon.Name, UID: balloon.UID, ResourceVersion: balloon.ResourceVersion,
		}, severity, reason, message)
		if node != nil && kind == v1alpha1.NodeBalloonSettled {
			// This is how kubelets refer to nodes, so that kubectl describe shows the events together.
			e.add(ctx, &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: types.UID(node.Name)}, severity, reason, message)
		}
	}
}

// resettled tells whether a balloon is settled at another size than it was.
func resettled(now *metav1.Condition, after *v1alpha1.NodeBalloonStatus, balloon *v1alpha1.NodeBalloon) bool {
	return now.Reason == v1alpha1.ReasonSettled && sizeOf(after.Allocated) != sizeOf(balloon.Status.Allocated)
}

func (e *events) add(ctx context.Context, about *corev1.ObjectReference, severity, reason, message string) {
	now := metav1.NewTime(e.clock.Now())
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault},
		InvolvedObject: *about,
		Type:           severity, Reason: reason, Message: message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: component}, ReportingController: component,
	}
	select {
	case e.waiting <- event:
	default:
		klog.FromContext(ctx).V(2).Info("Dropped an event, since too many wait to be written", "object", about.Name, "reason", reason)
	}
}

// run writes events until the context ends. Conditions say what events say, so one that cannot be written is left out.
func (e *events) run(ctx context.Context) {
	correlator := record.NewEventCorrelator(e.clock)
	unique := e.clock.Now().UnixNano()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-e.waiting:
			unique++
			event.Name = fmt.Sprintf("%s.%x", event.InvolvedObject.Name, unique)
			if err := e.write(ctx, correlator, event); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).V(2).Info("Could not write an event", "object", event.InvolvedObject.Name, "reason", event.Reason, "err", err)
			}
		}
	}
}

func (e *events) write(ctx context.Context, correlator *record.EventCorrelator, event *corev1.Event) error {
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	result, err := correlator.EventCorrelate(event)
	if err != nil || result.Skip {
		return err
	}
	var written *corev1.Event
	client := e.client.Events(event.Namespace)
	if result.Event.Count > 1 {
		written, err = client.Patch(ctx, result.Event.Name, types.StrategicMergePatchType, result.Patch, metav1.PatchOptions{})
	}
	if result.Event.Count == 1 || apierrors.IsNotFound(err) { // Events are kept for a while only.
		result.Event.ResourceVersion = ""
		written, err = client.Create(ctx, result.Event, metav1.CreateOptions{})
	}
	if err == nil {
		correlator.UpdateState(written)
	}
	return err
}
