// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package warning writes single Events of type Warning in the goroutine of the caller.
//
// The recorder of k8s.io/client-go/tools/events hands Events to goroutines of a broadcaster, which retry for minutes and are not awaited
// when it shuts down. A runnable of package leadership has to return only after everything it started, and the client of its term
// sends nothing afterwards. TestARecorderReturnsBeforeTheEventIsWritten runs a recorder.
package warning

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
)

const (
	// timeout bounds the request.
	timeout = 5 * time.Second
	// maxNote and maxInstance are the API's limits in bytes.
	maxNote, maxInstance = 1024, 128
)

// Event is what an Event says.
type Event struct {
	// Regarding is the object that the Event is about. The Event is in its namespace, or in default.
	Regarding corev1.ObjectReference
	// Controller and Instance are who reports, and Action what was done.
	Controller, Instance, Action string
	Reason, Note                 string
}

// Write creates the Event. Long notes are cut off.
func Write(ctx context.Context, client eventsclient.EventsGetter, e Event) error {
	namespace, now := e.Regarding.Namespace, time.Now()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", e.Regarding.Name, now.UnixNano()), Namespace: namespace},
		EventTime:  metav1.NewMicroTime(now),
		Type:       corev1.EventTypeWarning, Action: e.Action, Reason: e.Reason, Note: e.Note[:min(len(e.Note), maxNote)],
		ReportingController: e.Controller, ReportingInstance: e.Instance[:min(len(e.Instance), maxInstance)],
		Regarding: e.Regarding,
	}
	if _, err := client.Events(namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create event %s/%s: %w", namespace, event.Name, err)
	}
	return nil
}
