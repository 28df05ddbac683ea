// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/native/core"
)

// validate judges a new Event. What is wrong is named as the legacy group calls it, as Kubernetes does.
func validate(event *corev1.Event) field.ErrorList {
	errs := core.ValidateEvent(event, "reportingController")
	errs = append(errs, validateSeries(event)...)
	if event.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+event.Type))
	}
	for _, deprecated := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !event.FirstTimestamp.IsZero()},
		{"lastTimestamp", !event.LastTimestamp.IsZero()},
		{"count", event.Count != 0},
		{"source", event.Source != corev1.EventSource{}},
	} {
		if deprecated.set {
			errs = append(errs, field.Invalid(field.NewPath(deprecated.name), "", "needs to be unset"))
		}
	}
	return errs
}

// validateUpdate lets a series grow and metadata change.
func validateUpdate(event, old *corev1.Event) field.ErrorList {
	errs := core.ValidateEvent(event, "reportingController")
	if !reflect.DeepEqual(event.Series, old.Series) {
		errs = append(errs, validateSeries(event)...)
	}
	for _, fixed := range []struct {
		name     string
		new, old any
	}{
		{"involvedObject", event.InvolvedObject, old.InvolvedObject},
		{"reason", event.Reason, old.Reason},
		{"message", event.Message, old.Message},
		{"source", event.Source, old.Source},
		{"firstTimestamp", event.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", event.LastTimestamp, old.LastTimestamp},
		{"count", event.Count, old.Count},
		{"type", event.Type, old.Type},
		// Some clients lose what is below a microsecond.
		{"eventTime", metav1.NewTime(event.EventTime.Truncate(time.Microsecond)), metav1.NewTime(old.EventTime.Truncate(time.Microsecond))},
		{"action", event.Action, old.Action},
		{"related", event.Related, old.Related},
		{"reportingController", event.ReportingController, old.ReportingController},
		{"reportingInstance", event.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, validation.ValidateImmutableField(fixed.new, fixed.old, field.NewPath(fixed.name))...)
	}
	return errs
}

func validateSeries(event *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	if event.Series == nil {
		return nil
	}
	series := field.NewPath("series")
	if event.Series.Count < 2 {
		errs = append(errs, field.Invalid(series.Child("count"), "", "should be at least 2"))
	}
	if event.Series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(series.Child("lastObservedTime"), ""))
	}
	return errs
}
