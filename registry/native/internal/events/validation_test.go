// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func event(change func(*corev1.Event)) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team"}, InvolvedObject: corev1.ObjectReference{Namespace: "team"}, Type: "Normal", Reason: "r", Action: "a",
		EventTime: metav1.NewMicroTime(time.Unix(1, 2000)), ReportingController: "c", ReportingInstance: "i", Message: "m",
	}
	change(out)
	return out
}

func fields(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, string(err.Type)+" "+err.Field)
	}
	return out
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Event)
		want   []string
	}{
		"valid":            {func(*corev1.Event) {}, nil},
		"no time":          {func(e *corev1.Event) { e.EventTime = metav1.MicroTime{} }, []string{"FieldValueRequired eventTime"}},
		"no reason":        {func(e *corev1.Event) { e.Reason = "" }, []string{"FieldValueRequired reason"}},
		"no reporter":      {func(e *corev1.Event) { e.ReportingController = "a b" }, []string{"FieldValueInvalid reportingController"}},
		"an unknown type":  {func(e *corev1.Event) { e.Type = "Odd" }, []string{"FieldValueInvalid type"}},
		"deprecated times": {func(e *corev1.Event) { e.FirstTimestamp, e.LastTimestamp = metav1.Now(), metav1.Now() }, []string{"FieldValueInvalid firstTimestamp", "FieldValueInvalid lastTimestamp"}},
		"deprecated count": {func(e *corev1.Event) { e.Count = 1 }, []string{"FieldValueInvalid count"}},
		"deprecated host":  {func(e *corev1.Event) { e.Source.Host = "h" }, []string{"FieldValueInvalid source"}},
		"a series":         {func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NowMicro()} }, nil},
		"an empty series":  {func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 1} }, []string{"FieldValueInvalid series.count", "FieldValueRequired series.lastObservedTime"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, fields(validate(event(tc.change)))); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func TestValidateUpdate(t *testing.T) {
	t.Parallel()
	short := &corev1.EventSeries{Count: 1}
	for name, tc := range map[string]struct {
		was, is func(*corev1.Event)
		want    []string
	}{
		"a label":                {is: func(e *corev1.Event) { e.Labels = map[string]string{"a": "b"} }},
		"a series":               {is: func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 2, LastObservedTime: metav1.NowMicro()} }},
		"a series of one":        {is: func(e *corev1.Event) { e.Series = &corev1.EventSeries{Count: 1, LastObservedTime: metav1.NowMicro()} }, want: []string{"FieldValueInvalid series.count"}},
		"a bad series that was":  {was: func(e *corev1.Event) { e.Series = short }, is: func(e *corev1.Event) { e.Series = short }},
		"less than microseconds": {is: func(e *corev1.Event) { e.EventTime = metav1.NewMicroTime(time.Unix(1, 2999)) }},
		"another time":           {is: func(e *corev1.Event) { e.EventTime = metav1.NewMicroTime(time.Unix(1, 3000)) }, want: []string{"FieldValueInvalid eventTime"}},
		"all that stays": {
			is: func(e *corev1.Event) {
				*e = corev1.Event{
					ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, InvolvedObject: corev1.ObjectReference{Namespace: "x"}, Reason: "x", Message: "x", Source: corev1.EventSource{Host: "x"},
					FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 7, Type: "x", Action: "x", Related: &corev1.ObjectReference{}, ReportingController: "x", ReportingInstance: "x",
				}
			},
			want: []string{
				"FieldValueInvalid involvedObject", "FieldValueInvalid reason", "FieldValueInvalid message", "FieldValueInvalid source", "FieldValueInvalid firstTimestamp",
				"FieldValueInvalid lastTimestamp", "FieldValueInvalid count", "FieldValueInvalid type", "FieldValueInvalid action", "FieldValueInvalid related",
				"FieldValueInvalid reportingController", "FieldValueInvalid reportingInstance",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.was == nil {
				tc.was = func(*corev1.Event) {}
			}
			if diff := cmp.Diff(tc.want, fields(validateUpdate(event(tc.is), event(tc.was)))); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}
