// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	"github.com/kube-annex/annex/server/controlplane"
)

func TestEventRecorders(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	client := core(t, h.Admin())
	about := must[*corev1.ConfigMap](t)(client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "subject"}}, metav1.CreateOptions{}))
	for name, tc := range map[string]struct {
		record func() (again func(), stop func())
		// want is what the legacy group says of it, and wantNewer what the other one says.
		want      corev1.Event
		wantNewer eventsv1.Event
	}{
		"legacy": {
			record: func() (func(), func()) {
				broadcaster := record.NewBroadcaster(record.WithContext(t.Context()))
				broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
				recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "old-reporter"})
				return func() { recorder.Eventf(about, "Warning", "Tried", "tried %d times", 3) }, broadcaster.Shutdown
			},
			want: corev1.Event{
				Reason: "Tried", Message: "tried 3 times", Type: "Warning", Source: corev1.EventSource{Component: "old-reporter"}, Count: 2,
				ReportingController: "old-reporter",
			},
			wantNewer: eventsv1.Event{
				Reason: "Tried", Note: "tried 3 times", Type: "Warning", DeprecatedSource: corev1.EventSource{Component: "old-reporter"}, DeprecatedCount: 2,
				ReportingController: "old-reporter",
			},
		},
		"newer": {
			record: func() (func(), func()) {
				broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
				if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				recorder := broadcaster.NewRecorder(scheme.Scheme, "example.com/new-reporter")
				return func() { recorder.Eventf(about, nil, "Normal", "Tied", "Tying", "tied %d times", 3) }, broadcaster.Shutdown
			},
			want: corev1.Event{
				Reason: "Tied", Message: "tied 3 times", Type: "Normal", Action: "Tying", Series: &corev1.EventSeries{Count: 2},
				ReportingController: "example.com/new-reporter",
			},
			wantNewer: eventsv1.Event{
				Reason: "Tied", Note: "tied 3 times", Type: "Normal", Action: "Tying", Series: &eventsv1.EventSeries{Count: 2},
				ReportingController: "example.com/new-reporter",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again, stop := tc.record()
			defer stop()
			again()
			again()
			eventually(t, func() error {
				list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{
					FieldSelector: fmt.Sprintf("involvedObject.uid=%s,reason=%s", about.UID, tc.want.Reason),
				})
				if err != nil {
					return err
				}
				newer, err := client.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{
					FieldSelector: fmt.Sprintf("regarding.uid=%s,reason=%s", about.UID, tc.want.Reason),
				})
				if err != nil {
					return err
				}
				diff := cmp.Diff([]corev1.Event{tc.want}, legacyFacts(list)) + cmp.Diff([]eventsv1.Event{tc.wantNewer}, newerFacts(newer))
				if diff != "" {
					return fmt.Errorf("events (-want,+got):\n%s", diff)
				}
				return nil
			})
		})
	}
}

// legacyFacts returns what recorders were told.
func legacyFacts(list *corev1.EventList) []corev1.Event {
	var out []corev1.Event
	for _, event := range list.Items {
		fact := corev1.Event{
			Reason: event.Reason, Message: event.Message, Type: event.Type, Source: event.Source, Count: event.Count, Action: event.Action,
			ReportingController: event.ReportingController,
		}
		if event.Series != nil {
			fact.Series = &corev1.EventSeries{Count: event.Series.Count}
		}
		out = append(out, fact)
	}
	return out
}

func newerFacts(list *eventsv1.EventList) []eventsv1.Event {
	var out []eventsv1.Event
	for _, event := range list.Items {
		fact := eventsv1.Event{
			Reason: event.Reason, Note: event.Note, Type: event.Type, DeprecatedSource: event.DeprecatedSource, DeprecatedCount: event.DeprecatedCount,
			Action: event.Action, ReportingController: event.ReportingController,
		}
		if event.Series != nil {
			fact.Series = &eventsv1.EventSeries{Count: event.Series.Count}
		}
		out = append(out, fact)
	}
	return out
}

// TestLegacyEventsCanBeSwitchedOff has the newer group go on without the version that Events are stored in.
func TestLegacyEventsCanBeSwitchedOff(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) { o.DisabledResources = []schema.GroupResource{{Resource: "events"}} })
	client := core(t, h.Admin())
	if _, err := client.EventsV1().Events("default").Create(t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, EventTime: metav1.NewMicroTime(time.Now()), Type: "Normal", Reason: "r", Action: "a",
		ReportingController: "c", ReportingInstance: "i",
	}, metav1.CreateOptions{}); err != nil {
		t.Errorf("the group that is on: %v", err)
	}
	if _, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the group that is off: got %v, want 404", err)
	}
}
