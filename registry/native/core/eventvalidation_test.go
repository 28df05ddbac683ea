// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestValidateEvent(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("a", n) }
	old := corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, InvolvedObject: corev1.ObjectReference{Namespace: "team"}}
	full := *old.DeepCopy()
	full.EventTime, full.ReportingController, full.ReportingInstance, full.Action, full.Reason = metav1.NewMicroTime(time.Now()), "example.com/c", "i", "a", "r"
	for name, tc := range map[string]struct {
		in     corev1.Event
		change func(*corev1.Event)
		want   []string
	}{
		"old":                               {in: old},
		"old, all is long":                  {old, func(e *corev1.Event) { e.Reason, e.Action, e.Message = long(200), long(200), long(2000) }, nil},
		"old, about another namespace":      {old, func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" }, []string{"FieldValueInvalid involvedObject.namespace"}},
		"old, about no namespace":           {old, func(e *corev1.Event) { e.InvolvedObject.Namespace = "" }, []string{"FieldValueInvalid involvedObject.namespace"}},
		"old, about none, from default":     {old, func(e *corev1.Event) { e.Namespace, e.InvolvedObject.Namespace = "default", "" }, nil},
		"old, about none, from kube-system": {old, func(e *corev1.Event) { e.Namespace, e.InvolvedObject.Namespace = "kube-system", "" }, []string{"FieldValueInvalid involvedObject.namespace"}},
		"new":                               {in: full},
		"new, about another namespace":      {full, func(e *corev1.Event) { e.InvolvedObject.Namespace = "other" }, nil},
		"new, about no namespace":           {full, func(e *corev1.Event) { e.InvolvedObject.Namespace = "" }, []string{"FieldValueInvalid involvedObject.namespace"}},
		"new, about none, from kube-system": {full, func(e *corev1.Event) { e.Namespace, e.InvolvedObject.Namespace = "kube-system", "" }, nil},
		"new, nothing else": {
			full, func(e *corev1.Event) { e.ReportingController, e.ReportingInstance, e.Action, e.Reason = "", "", "", "" },
			[]string{
				"FieldValueRequired who", "FieldValueInvalid who", "FieldValueInvalid who", "FieldValueRequired reportingInstance", "FieldValueRequired action", "FieldValueRequired reason",
			},
		},
		"new, as long as may be": {
			full, func(e *corev1.Event) {
				e.ReportingController, e.ReportingInstance, e.Action, e.Reason, e.Message = long(63), long(128), long(128), long(128), long(1024)
			}, nil,
		},
		"new, longer": {
			full, func(e *corev1.Event) {
				e.ReportingController, e.ReportingInstance, e.Action, e.Reason, e.Message = long(64), long(129), long(129), long(129), long(1025)
			},
			[]string{"FieldValueInvalid who", "FieldValueInvalid reportingInstance", "FieldValueInvalid action", "FieldValueInvalid reason", "FieldValueInvalid message"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := tc.in.DeepCopy()
			if tc.change != nil {
				tc.change(event)
			}
			if diff := cmp.Diff(tc.want, fields(ValidateEvent(event, "who"))); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}
