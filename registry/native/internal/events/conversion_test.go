// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/apis/roundtriptest"
)

func TestNothingIsLostInAnyGroupOrEncoding(t *testing.T) {
	t.Parallel()
	roundtriptest.Run(t, func(scheme *runtime.Scheme) {
		kind := Kinds(nil)[0]
		scheme.AddKnownTypes(GroupVersion, kind.Types...)
		scheme.AddKnownTypes(schema.GroupVersion{Group: GroupVersion.Group, Version: runtime.APIVersionInternal}, kind.Hub...)
		metav1.AddToGroupVersion(scheme, GroupVersion)
		if err := kind.Convert(scheme); err != nil {
			t.Fatal(err)
		}
	}, nil)
}

// TestEveryFieldHasANameInTheOtherGroup finds what a new version of the types may bring, and what two fields would share.
func TestEveryFieldHasANameInTheOtherGroup(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"ObjectMeta": "ObjectMeta", "EventTime": "EventTime", "Series": "Series", "ReportingController": "ReportingController",
		"ReportingInstance": "ReportingInstance", "Action": "Action", "Reason": "Reason", "Related": "Related", "Type": "Type",
		"Regarding": "InvolvedObject", "Note": "Message", "DeprecatedSource": "Source", "DeprecatedCount": "Count",
		"DeprecatedFirstTimestamp": "FirstTimestamp", "DeprecatedLastTimestamp": "LastTimestamp",
	}
	got := map[string]string{}
	newer := reflect.TypeFor[eventsv1.Event]()
	for i := range newer.NumField() {
		var event eventsv1.Event
		if field := reflect.ValueOf(&event).Elem().Field(i); newer.Field(i).Name != "TypeMeta" {
			set(field)
			var hub corev1.Event
			toHub(&event, &hub)
			got[newer.Field(i).Name] = nonZero(hub)
			var back eventsv1.Event
			fromHub(&hub, &back)
			if diff := cmp.Diff(event, back); diff != "" {
				t.Errorf("%s there and back (-want,+got):\n%s", newer.Field(i).Name, diff)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields of events.k8s.io in the legacy group (-want,+got):\n%s", diff)
	}
	if hub := reflect.TypeFor[corev1.Event](); hub.NumField() != len(want)+1 {
		t.Errorf("an Event of the legacy group has %d fields beside its type, want %d", hub.NumField()-1, len(want))
	}
}

// set gives a field some value, or one to a field within it.
func set(field reflect.Value) {
	switch field.Kind() {
	case reflect.Struct:
		switch field.Interface().(type) {
		case metav1.Time:
			field.Set(reflect.ValueOf(metav1.Unix(1, 0)))
		case metav1.MicroTime:
			field.Set(reflect.ValueOf(metav1.NewMicroTime(metav1.Unix(1, 0).Time)))
		default:
			set(field.Field(0))
		}
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.String:
		field.SetString("x")
	default:
		field.SetInt(1)
	}
}

// nonZero returns the names of the fields that are set.
func nonZero(event corev1.Event) string {
	names := ""
	for i := range reflect.TypeOf(event).NumField() {
		if !reflect.ValueOf(event).Field(i).IsZero() {
			names += reflect.TypeOf(event).Field(i).Name
		}
	}
	return names
}
