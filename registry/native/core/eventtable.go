// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// eventTable shows Events to kubectl get. It tells what happened, and the names, which say nothing, last.
type eventTable struct{}

// ConvertToTable implements rest.TableConvertor.
func (eventTable) ConvertToTable(_ context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	if list, err := meta.ListAccessor(object); err == nil {
		out.ResourceVersion = list.GetResourceVersion()
		out.Continue = list.GetContinue()
		out.RemainingItemCount = list.GetRemainingItemCount()
	} else if single, err := meta.CommonAccessor(object); err == nil {
		out.ResourceVersion = single.GetResourceVersion()
	}
	if options, ok := tableOptions.(*metav1.TableOptions); !ok || !options.NoHeaders {
		out.ColumnDefinitions = eventColumns()
	}
	var err error
	out.Rows, err = metatable.MetaToTableRow(object, func(o runtime.Object, _ metav1.Object, _, _ string) ([]any, error) {
		return eventCells(o.(*corev1.Event)), nil
	})
	return out, err
}

func eventColumns() []metav1.TableColumnDefinition {
	docs := corev1.Event{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		{Name: "Last Seen", Type: "string", Description: docs["lastTimestamp"]},
		{Name: "Type", Type: "string", Description: docs["type"]},
		{Name: "Reason", Type: "string", Description: docs["reason"]},
		{Name: "Object", Type: "string", Description: docs["involvedObject"]},
		{Name: "Subobject", Type: "string", Priority: 1, Description: corev1.ObjectReference{}.SwaggerDoc()["fieldPath"]},
		{Name: "Source", Type: "string", Priority: 1, Description: docs["source"]},
		{Name: "Message", Type: "string", Description: docs["message"]},
		{Name: "First Seen", Type: "string", Priority: 1, Description: docs["firstTimestamp"]},
		{Name: "Count", Type: "string", Priority: 1, Description: docs["count"]},
		{Name: "Name", Type: "string", Priority: 1, Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
	}
}

func eventCells(event *corev1.Event) []any {
	firstSeen := age(event.FirstTimestamp.Time, event.EventTime.Time)
	lastSeen, count := firstSeen, event.Count
	if !event.LastTimestamp.IsZero() {
		lastSeen = age(event.LastTimestamp.Time)
	}
	switch {
	case event.Series != nil:
		lastSeen, count = age(event.Series.LastObservedTime.Time), event.Series.Count
	case count == 0:
		// Clients of events.k8s.io leave it out for what happened once.
		count = 1
	}
	object := strings.ToLower(event.InvolvedObject.Kind)
	if name := event.InvolvedObject.Name; name != "" {
		object += "/" + name
	}
	source := first(event.Source.Component, event.ReportingController)
	if instance := first(event.Source.Host, event.ReportingInstance); instance != "" {
		source += ", " + instance
	}
	return []any{
		lastSeen, event.Type, event.Reason, object, event.InvolvedObject.FieldPath, source,
		strings.TrimSpace(event.Message), firstSeen, int64(count), event.Name,
	}
}

// age tells how long ago the first of the times was that is known.
func age(times ...time.Time) string {
	for _, at := range times {
		if !at.IsZero() {
			return duration.HumanDuration(time.Since(at))
		}
	}
	return "<unknown>"
}
