// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/apis/node/v1alpha1"
)

func TestEventsAreAboutChangesOfConditions(t *testing.T) {
	t.Parallel()
	const present, settled, yes, no = v1alpha1.NodeBalloonNodePresent, v1alpha1.NodeBalloonSettled, metav1.ConditionTrue, metav1.ConditionFalse
	status := func(allocated size, kind string, is metav1.ConditionStatus, reason, message string) v1alpha1.NodeBalloonStatus {
		return v1alpha1.NodeBalloonStatus{
			Allocated: allocated.list(), Effective: size{4000, 8 * gi}.less(allocated).list(),
			Conditions: []metav1.Condition{{Type: kind, Status: is, Reason: reason, Message: message}},
		}
	}
	type event struct{ On, Severity, Reason, Message string }
	onBoth := func(severity, reason, message string) []event {
		return []event{{"NodeBalloon", severity, reason, message}, {"Node", severity, reason, message}}
	}
	one, two := size{1000, gi}, size{2000, 4 * gi}

	for name, tc := range map[string]struct {
		before, after v1alpha1.NodeBalloonStatus
		noNode        bool
		want          []event
	}{
		"no condition yet": {},
		"first reason":     {after: status(floor(), settled, no, v1alpha1.ReasonResizing, "resizing"), want: onBoth("Normal", "BalloonResizing", "resizing")},
		"first reason is that it is settled": {
			after: status(two, settled, yes, v1alpha1.ReasonSettled, ""),
			want:  onBoth("Normal", "BalloonSettled", "the balloon holds cpu 2, memory 4Gi; the node's effective size is cpu 2, memory 4Gi"),
		},
		"another reason": {
			before: status(floor(), settled, no, v1alpha1.ReasonResizing, "resizing"), after: status(floor(), settled, no, v1alpha1.ReasonDeferred, "no room"),
			want: onBoth("Warning", "BalloonDeferred", "no room"),
		},
		"the same reason with another message": {
			before: status(floor(), settled, no, v1alpha1.ReasonDeferred, "no room"), after: status(floor(), settled, no, v1alpha1.ReasonDeferred, "no cpu"),
		},
		"settled at another size": {
			before: status(two, settled, yes, v1alpha1.ReasonSettled, ""), after: status(one, settled, yes, v1alpha1.ReasonSettled, ""),
			want: onBoth("Normal", "BalloonSettled", "the balloon holds cpu 1, memory 1Gi; the node's effective size is cpu 3, memory 7Gi"),
		},
		"settled at the same size": {before: status(two, settled, yes, v1alpha1.ReasonSettled, ""), after: status(two, settled, yes, v1alpha1.ReasonSettled, "")},
		"another size, and not settled": {
			before: status(two, settled, no, v1alpha1.ReasonResizing, ""), after: status(one, settled, no, v1alpha1.ReasonResizing, ""),
		},
		"another reason, without a node": {
			before: status(two, settled, yes, v1alpha1.ReasonSettled, ""), after: status(size{}, settled, no, v1alpha1.ReasonPending, "no node"), noNode: true,
			want: []event{{"NodeBalloon", "Normal", "BalloonPending", "no node"}},
		},
		"node is present from the start": {after: status(size{}, present, yes, "NodeFound", "")},
		"node is absent from the start": {
			after: status(size{}, present, no, "NodeNotFound", "no node"), noNode: true,
			want: []event{{"NodeBalloon", "Normal", "NodeNotFound", "no node"}},
		},
		"node appears": {
			before: status(size{}, present, no, "NodeNotFound", "no node"), after: status(size{}, present, yes, "NodeFound", "found"),
			want: []event{{"NodeBalloon", "Normal", "NodeFound", "found"}},
		},
		"node disappears": {
			before: status(two, present, yes, "NodeFound", ""), after: status(size{}, present, no, "NodeNotFound", "no node"), noNode: true,
			want: []event{{"NodeBalloon", "Normal", "NodeNotFound", "no node"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := testNode()
			if tc.noNode {
				node = nil
			}
			e := newEvents(nil, clocktesting.NewFakePassiveClock(start))
			e.tell(t.Context(), testBalloon(v1alpha1.NodeBalloonSpec{}, func(b *v1alpha1.NodeBalloon) { b.Status = tc.before }), node, &tc.after)
			close(e.waiting)
			var got []event
			for written := range e.waiting {
				got = append(got, event{written.InvolvedObject.Kind, written.Type, written.Reason, written.Message})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("events (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestReasonsThatNeedAttentionAreWarnings(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		v1alpha1.ReasonPending: corev1.EventTypeNormal, v1alpha1.ReasonResizing: corev1.EventTypeNormal, v1alpha1.ReasonSettled: corev1.EventTypeNormal,
		v1alpha1.ReasonDeferred: corev1.EventTypeWarning, v1alpha1.ReasonReverted: corev1.EventTypeWarning,
		v1alpha1.ReasonInfeasible: corev1.EventTypeWarning, v1alpha1.ReasonDisplaced: corev1.EventTypeWarning,
	} {
		e := newEvents(nil, clocktesting.NewFakePassiveClock(start))
		after := v1alpha1.NodeBalloonStatus{Conditions: []metav1.Condition{{Type: v1alpha1.NodeBalloonSettled, Reason: reason}}}
		e.tell(t.Context(), testBalloon(v1alpha1.NodeBalloonSpec{}), nil, &after)
		if got := (<-e.waiting).Type; got != want {
			t.Errorf("%s: the event is of type %s, want %s", reason, got, want)
		}
	}
}

// TestWritingEventsEndsWithItsContext, and with it a request that the server does not answer. client-go's recorder goes on.
func TestWritingEventsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	began, canceled := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body) // A server notices a lost connection only after the body.
		close(began)
		<-request.Context().Done()
		close(canceled)
	}))
	defer server.Close()
	client, err := corev1client.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	e := newEvents(client, clocktesting.NewFakePassiveClock(start))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.run(ctx)
	}()
	e.add(ctx, &corev1.ObjectReference{Kind: "NodeBalloon", Name: "b"}, corev1.EventTypeNormal, "BalloonSettled", "settled")
	for _, step := range []struct {
		what string
		c    <-chan struct{}
		then func()
	}{{"the request begins", began, stop}, {"the writer ends", ended, func() {}}, {"the request is canceled", canceled, func() {}}} {
		select {
		case <-step.c:
			step.then()
		case <-time.After(time.Minute):
			t.Fatalf("timed out waiting until %s", step.what)
		}
	}
}
