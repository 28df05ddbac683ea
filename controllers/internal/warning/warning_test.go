// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package warning

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
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

// TestARecorderReturnsBeforeTheEventIsWritten is why this package does not use one.
func TestARecorderReturnsBeforeTheEventIsWritten(t *testing.T) {
	t.Parallel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "kube-system"}}
	for name, tc := range map[string]struct {
		write   func(ctx context.Context, host kubernetes.Interface) error
		written bool
	}{
		"Write": {func(ctx context.Context, host kubernetes.Interface) error {
			return Write(ctx, host.EventsV1(), Event{Regarding: corev1.ObjectReference{Name: lease.Name, Namespace: lease.Namespace}})
		}, true},
		"a recorder": {func(ctx context.Context, host kubernetes.Interface) error {
			broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: host.EventsV1()})
			if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
				return err
			}
			broadcaster.NewRecorder(scheme.Scheme, "annex.io/test").Eventf(lease, nil, "Warning", "MissingRight", "Lead", "note")
			synctest.Wait() // until the request is sent
			broadcaster.Shutdown()
			return nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var requests, answers atomic.Int32
				host := fake.NewClientset()
				host.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
					requests.Add(1)
					time.Sleep(time.Second) //nolint:forbidigo // in a bubble, it takes no time
					answers.Add(1)
					return false, nil, nil
				})
				ctx, stop := context.WithCancel(t.Context())
				if err := tc.write(ctx, host); err != nil || requests.Load() != 1 {
					t.Fatalf("sent %d requests: %v; want one", requests.Load(), err)
				}
				if written := answers.Load() == 1; written != tc.written {
					t.Errorf("the Event is written: %t, want %t", written, tc.written)
				}
				stop()
				time.Sleep(time.Minute) //nolint:forbidigo // in a bubble; the request of a recorder ends
			})
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
