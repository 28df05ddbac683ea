// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestWriteIsDoneWhenItReturns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		regarding corev1.ObjectReference
		namespace string
	}{
		"an object in a namespace": {corev1.ObjectReference{Kind: "Lease", Name: "l", Namespace: "kube-system"}, "kube-system"},
		"a cluster-scoped object":  {corev1.ObjectReference{Kind: "ClusterClaim", Name: "c"}, "default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset().EventsV1()
			event := Event{
				Regarding: tc.regarding, Controller: "annex.io/test", Instance: strings.Repeat("i", 200), Action: "Lead", Reason: "MissingRight",
				Note: strings.Repeat("n", 2000),
			}
			if err := Write(t.Context(), client, event); err != nil {
				t.Fatal(err)
			}
			list, err := client.Events(tc.namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				t.Fatalf("the events are %v, %v; want one", list, err)
			}
			got := list.Items[0]
			if got.Regarding != tc.regarding || got.Type != "Warning" || got.Reason != "MissingRight" || got.Action != "Lead" {
				t.Errorf("the event is %v", got)
			}
			if len(got.Note) != 1024 || len(got.ReportingInstance) != 128 {
				t.Errorf("the note has %d bytes and the instance %d, want 1024 and 128", len(got.Note), len(got.ReportingInstance))
			}
		})
	}
}

// TestWriteReturnsTheError of a server that refuses the Event, such as context.Canceled from a client that is stopped.
func TestWriteReturnsTheError(t *testing.T) {
	t.Parallel()
	host := fake.NewClientset()
	host.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, context.Canceled })
	if err := Write(t.Context(), host.EventsV1(), Event{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}
