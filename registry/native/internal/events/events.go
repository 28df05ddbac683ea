// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events serves the newer API of Events. They are the objects that the legacy group serves under the same name, in its Go type:
// what is written through one group is read, watched and deleted through the other. The fields have other names here, and more is asked
// of who writes. Who owns which field is known for the group of the last write alone, as with Kubernetes.
package events

import (
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-annex/annex/registry/native/core"
	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kind is served in. It is stored in that of the legacy group.
var GroupVersion = eventsv1.SchemeGroupVersion

// Kinds lists the kinds of the group, which are served out of what is given.
func Kinds(kept *core.Events) []resource.Served {
	return []resource.Served{{
		Resource: "events",
		Types:    []runtime.Object{&eventsv1.Event{}, &eventsv1.EventList{}},
		Hub:      []runtime.Object{&corev1.Event{}, &corev1.EventList{}},
		Convert:  registerConversions,
		Selectable: map[string]string{
			"reason":                    "reason",
			"regarding.apiVersion":      "involvedObject.apiVersion",
			"regarding.fieldPath":       "involvedObject.fieldPath",
			"regarding.kind":            "involvedObject.kind",
			"regarding.name":            "involvedObject.name",
			"regarding.namespace":       "involvedObject.namespace",
			"regarding.resourceVersion": "involvedObject.resourceVersion",
			"regarding.uid":             "involvedObject.uid",
			"reportingController":       "reportingComponent",
			"type":                      "type",
		},
		Install: func(group *resource.Group) error {
			kind := core.EventKind()
			kind.Validate, kind.ValidateUpdate = validate, validateUpdate
			_, err := kept.Install(group, kind)
			return err
		},
	}}
}
