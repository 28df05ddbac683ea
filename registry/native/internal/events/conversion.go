// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// registerConversions teaches a scheme both directions. What they make shares memory with what it is made of, as generated conversions do.
func registerConversions(scheme *runtime.Scheme) error {
	for _, err := range []error{
		scheme.AddConversionFunc((*eventsv1.Event)(nil), (*corev1.Event)(nil), func(in, out any, _ conversion.Scope) error {
			toHub(in.(*eventsv1.Event), out.(*corev1.Event))
			return nil
		}),
		scheme.AddConversionFunc((*corev1.Event)(nil), (*eventsv1.Event)(nil), func(in, out any, _ conversion.Scope) error {
			fromHub(in.(*corev1.Event), out.(*eventsv1.Event))
			return nil
		}),
		scheme.AddConversionFunc((*eventsv1.EventList)(nil), (*corev1.EventList)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*eventsv1.EventList), b.(*corev1.EventList)
			out.ListMeta, out.Items = in.ListMeta, each(in.Items, toHub)
			return nil
		}),
		scheme.AddConversionFunc((*corev1.EventList)(nil), (*eventsv1.EventList)(nil), func(a, b any, _ conversion.Scope) error {
			in, out := a.(*corev1.EventList), b.(*eventsv1.EventList)
			out.ListMeta, out.Items = in.ListMeta, each(in.Items, fromHub)
			return nil
		}),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// each keeps an empty list apart from none.
func each[In, Out any](in []In, convert func(*In, *Out)) []Out {
	if in == nil {
		return nil
	}
	out := make([]Out, len(in))
	for i := range in {
		convert(&in[i], &out[i])
	}
	return out
}

func toHub(in *eventsv1.Event, out *corev1.Event) {
	out.ObjectMeta = in.ObjectMeta
	out.InvolvedObject = in.Regarding
	out.Reason = in.Reason
	out.Message = in.Note
	out.Source = in.DeprecatedSource
	out.FirstTimestamp = in.DeprecatedFirstTimestamp
	out.LastTimestamp = in.DeprecatedLastTimestamp
	out.Count = in.DeprecatedCount
	out.Type = in.Type
	out.EventTime = in.EventTime
	out.Series = (*corev1.EventSeries)(in.Series)
	out.Action = in.Action
	out.Related = in.Related
	out.ReportingController = in.ReportingController
	out.ReportingInstance = in.ReportingInstance
}

func fromHub(in *corev1.Event, out *eventsv1.Event) {
	out.ObjectMeta = in.ObjectMeta
	out.EventTime = in.EventTime
	out.Series = (*eventsv1.EventSeries)(in.Series)
	out.ReportingController = in.ReportingController
	out.ReportingInstance = in.ReportingInstance
	out.Action = in.Action
	out.Reason = in.Reason
	out.Regarding = in.InvolvedObject
	out.Related = in.Related
	out.Note = in.Message
	out.Type = in.Type
	out.DeprecatedSource = in.Source
	out.DeprecatedFirstTimestamp = in.FirstTimestamp
	out.DeprecatedLastTimestamp = in.LastTimestamp
	out.DeprecatedCount = in.Count
}
