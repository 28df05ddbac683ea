// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package events_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/clusteridentity/events"
)

// sink receives what a cluster would.
type sink chan *corev1.Event

// Create implements record.EventSink.
func (s sink) Create(event *corev1.Event) (*corev1.Event, error) {
	s <- event
	return event, nil
}

// Update implements record.EventSink.
func (s sink) Update(event *corev1.Event) (*corev1.Event, error) {
	return event, nil
}

// Patch implements record.EventSink.
func (s sink) Patch(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return event, nil
}

func TestEventsSayWhichCluster(t *testing.T) {
	t.Parallel()
	received := make(sink, 10)
	broadcaster := record.NewBroadcaster(record.WithContext(t.Context()))
	defer broadcaster.Shutdown()
	defer broadcaster.StartRecordingToSink(received).Stop()
	var identity clusteridentity.Identity
	recorder := events.NewRecorder(broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"}), func() clusteridentity.Identity { return identity })
	about := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
	member := clusteridentity.Identity{Known: true, ID: "1", ClusterSet: "fleet"}
	annotations := map[string]string{"example.com/a": "b", "multicluster.k8s.io/clusterset": "of the caller"}
	both := map[string]string{"multicluster.k8s.io/cluster-id": "1", "multicluster.k8s.io/clusterset": "fleet"}

	for reason, tc := range map[string]struct {
		identity clusteridentity.Identity
		record   func(reason string)
		message  string
		want     map[string]string
	}{
		"NotKnown":  {record: func(r string) { recorder.Event(about, "Normal", r, "100%") }, message: "100%"},
		"NoSet":     {clusteridentity.Identity{Known: true, ID: "1"}, func(r string) { recorder.Event(about, "Normal", r, "100%") }, "100%", map[string]string{"multicluster.k8s.io/cluster-id": "1"}},
		"Member":    {member, func(r string) { recorder.Event(about, "Normal", r, "%s") }, "%s", both},
		"Formatted": {member, func(r string) { recorder.Eventf(about, "Normal", r, "%d of %d", 1, 2) }, "1 of 2", both},
		"Annotated": {
			member, func(r string) { recorder.AnnotatedEventf(about, annotations, "Normal", r, "%d", 1) }, "1",
			map[string]string{"example.com/a": "b", "multicluster.k8s.io/cluster-id": "1", "multicluster.k8s.io/clusterset": "of the caller"},
		},
		"WithLogger": {member, func(r string) { recorder.WithLogger(klog.FromContext(t.Context())).Event(about, "Normal", r, "hello") }, "hello", both},
		"NewAPI": {
			member, func(r string) {
				record.NewEventRecorderAdapter(recorder).Eventf(about, nil, "Normal", r, "Doing", "%d", 3)
			}, "3", both,
		},
	} {
		identity = tc.identity
		tc.record(reason)
		select {
		case event := <-received:
			if event.Reason != reason || event.Message != tc.message || event.InvolvedObject.Name != "c" {
				t.Errorf("%s: the event is %v", reason, event)
			}
			if diff := cmp.Diff(tc.want, event.Annotations); diff != "" && len(tc.want)+len(event.Annotations) > 0 {
				t.Errorf("%s: annotations (-want,+got):\n%s", reason, diff)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: there is no event", reason)
		}
	}
	if len(annotations) != 2 {
		t.Errorf("the caller's annotations have become %v", annotations)
	}
	if got := events.NewRecorder(record.NewFakeRecorder(1), func() clusteridentity.Identity { return identity }); got.WithLogger(klog.FromContext(t.Context())) == nil {
		t.Error("there is no recorder with a logger")
	}
}
