// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events adds the cluster's id and set to events, as annotations (KEP-2149, "Diagnostics"). Whoever collects the events of many
// clusters can then tell where each comes from.
package events

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/clusteridentity"
)

// Annotations that events get. There is none for an id or a set that there is not.
const (
	ClusterIDAnnotation  = "multicluster.k8s.io/cluster-id"
	ClusterSetAnnotation = "multicluster.k8s.io/clusterset"
)

// NewRecorder returns a recorder that adds the identity of the moment to each event, and leaves the recording to inner. For the recorder of
// k8s.io/client-go/tools/events wrap the result with record.NewEventRecorderAdapter.
func NewRecorder(inner record.EventRecorder, identity func() clusteridentity.Identity) record.EventRecorderLogger {
	return &recorder{inner: inner, identity: identity}
}

type recorder struct {
	inner    record.EventRecorder
	identity func() clusteridentity.Identity
}

// Event implements record.EventRecorder.
func (r *recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.AnnotatedEventf(object, nil, eventType, reason, "%s", message)
}

// Eventf implements record.EventRecorder.
func (r *recorder) Eventf(object runtime.Object, eventType, reason, format string, values ...any) {
	r.AnnotatedEventf(object, nil, eventType, reason, format, values...)
}

// AnnotatedEventf implements record.EventRecorder. What the caller says of the cluster stands.
func (r *recorder) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, values ...any) {
	identity, all := r.identity(), map[string]string{}
	if identity.ID != "" {
		all[ClusterIDAnnotation] = identity.ID
	}
	if identity.IsMember() {
		all[ClusterSetAnnotation] = identity.ClusterSet
	}
	maps.Copy(all, annotations)
	r.inner.AnnotatedEventf(object, all, eventType, reason, format, values...)
}

// WithLogger implements record.EventRecorderLogger, as far as the recorder below does.
func (r *recorder) WithLogger(logger klog.Logger) record.EventRecorderLogger {
	if inner, ok := r.inner.(record.EventRecorderLogger); ok {
		return &recorder{inner: inner.WithLogger(logger), identity: r.identity}
	}
	return r
}
