// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
)

// firstRetry and lastRetry bound how soon a watch that could not be had, or broke, is asked for again.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// stream tells about the objects of a kind in all namespaces. It keeps none of them.
type stream struct {
	client   metadata.Interface
	resource schema.GroupVersionResource
	// missed is called at the beginning, and whenever there may have been events that nobody has told about.
	missed func()
	event  func(watch.EventType, *metav1.PartialObjectMetadata)
}

// run tells until the context ends.
func (s stream) run(ctx context.Context) {
	for retry := firstRetry; ctx.Err() == nil; retry = min(2*retry, lastRetry) {
		began := time.Now()
		if err := s.tell(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Objects that quotas count cannot be watched; trying again", "resource", s.resource, "reason", err.Error())
			if absent(err) {
				s.missed()
			}
		}
		if time.Since(began) > lastRetry {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// tell returns when the server ends the watch, as it does after half an hour or an hour.
func (s stream) tell(ctx context.Context) error {
	first, err := s.client.Resource(s.resource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("find out where to begin: %w", err)
	}
	events, err := s.client.Resource(s.resource).Watch(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer events.Stop()
	s.missed()
	for event := range events.ResultChan() {
		if event.Type == watch.Error {
			return fmt.Errorf("watch: %w", apierrors.FromObject(event.Object))
		}
		if object, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
			s.event(event.Type, object)
		}
	}
	return nil
}

// absent tells that there is no such kind any more.
func absent(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }
