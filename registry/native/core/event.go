// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/kube-annex/annex/registry/resource"
)

// eventTTL is how long Events are kept unless it is said otherwise, as with Kubernetes.
const eventTTL = time.Hour

// Events are kept once and served by two groups, each of which can be there without the other.
type Events struct {
	ttl   time.Duration
	store *genericregistry.Store
}

// NewEvents returns Events that are gone so long after they were last written; 0 means an hour.
func NewEvents(ttl time.Duration) *Events {
	if ttl == 0 {
		ttl = eventTTL
	}
	return &Events{ttl: ttl}
}

// Served lists the kind of the legacy group.
func (e *Events) Served() resource.Served {
	kind := EventKind()
	kind.SelectableFields = selectableEventFields()
	kind.ValidateUpdate = func(event, _ *corev1.Event) field.ErrorList { return validateEvent(event) }
	served := kind.Served()
	served.Install = func(group *resource.Group) error {
		store, err := e.Install(group, kind)
		if err == nil {
			store.CreateStrategy = looseEvents{store.CreateStrategy.(createStrategy)}
		}
		return err
	}
	return served
}

// EventKind returns what the kinds of both groups have in common.
func EventKind() resource.Kind[*corev1.Event] {
	return resource.Kind[*corev1.Event]{
		Plural: "events", Singular: "event", ShortNames: []string{"ev"},
		NewList:             func() runtime.Object { return &corev1.EventList{} },
		CreateOnUpdate:      true,
		UnconditionalUpdate: true,
	}
}

// Install serves a kind of Events. The first one to be installed builds the store.
func (e *Events) Install(group *resource.Group, kind resource.Kind[*corev1.Event]) (*genericregistry.Store, error) {
	if e.store == nil {
		kept := EventKind()
		kept.SelectableFields = selectableEventFields()
		kept.TTL = func(*corev1.Event) uint64 { return uint64(e.ttl.Seconds()) }
		store, err := kept.InstallStore(group.Beside(GroupVersion, asCoreEvents))
		if err != nil {
			return nil, fmt.Errorf("the store that the groups of events share: %w", err)
		}
		store.TableConvertor = eventTable{}
		store.DeleteStrategy = withoutDependents{store.DeleteStrategy}
		e.store = store
	}
	return kind.InstallOver(group, e.store), nil
}

// selectableEventFields are those of the legacy group; the store knows no other names.
func selectableEventFields() map[string]func(*corev1.Event) string {
	return map[string]func(*corev1.Event) string{
		"involvedObject.kind":            func(event *corev1.Event) string { return event.InvolvedObject.Kind },
		"involvedObject.namespace":       func(event *corev1.Event) string { return event.InvolvedObject.Namespace },
		"involvedObject.name":            func(event *corev1.Event) string { return event.InvolvedObject.Name },
		"involvedObject.uid":             func(event *corev1.Event) string { return string(event.InvolvedObject.UID) },
		"involvedObject.apiVersion":      func(event *corev1.Event) string { return event.InvolvedObject.APIVersion },
		"involvedObject.resourceVersion": func(event *corev1.Event) string { return event.InvolvedObject.ResourceVersion },
		"involvedObject.fieldPath":       func(event *corev1.Event) string { return event.InvolvedObject.FieldPath },
		"reason":                         func(event *corev1.Event) string { return event.Reason },
		"reportingComponent":             func(event *corev1.Event) string { return event.ReportingController },
		"source":                         func(event *corev1.Event) string { return first(event.Source.Component, event.ReportingController) },
		"type":                           func(event *corev1.Event) string { return event.Type },
	}
}

func first(candidates ...string) string {
	for _, candidate := range candidates {
		if candidate != "" {
			return candidate
		}
	}
	return ""
}

// createStrategy is what kinds are created by.
type createStrategy interface {
	rest.RESTCreateStrategy
	rest.DeclarativeValidationStrategy
}

// looseEvents accepts what old clients of the legacy group send: any name that fits into a path.
type looseEvents struct{ createStrategy }

// Validate implements rest.RESTCreateStrategy. What is left of metadata is judged with every write.
func (looseEvents) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	return validateEvent(obj.(*corev1.Event))
}

// withoutDependents has no deletion of an Event wait for objects that name it as their owner: the garbage collector ignores Events.
type withoutDependents struct{ rest.RESTDeleteStrategy }

// DefaultGarbageCollectionPolicy implements rest.GarbageCollectionDeleteStrategy.
func (withoutDependents) DefaultGarbageCollectionPolicy(context.Context) rest.GarbageCollectionPolicy {
	return rest.Unsupported
}
