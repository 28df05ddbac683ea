// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/util/workqueue"
)

// TestBlockedOwnersAreLookedAtAgain has owners whose dependents were asked to go once, with nothing heard of them since.
func TestBlockedOwnersAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	c := &Controller{
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[object]()),
		monitors: map[schema.GroupResource]*monitor{}, expanded: map[types.UID]bool{"waiting": true},
	}
	t.Cleanup(c.queue.ShutDown)
	m, err := newMonitor(fake.NewSimpleMetadataClient(fake.NewTestScheme()), kind{resource: resource, namespaced: true}, c.handler(resource.GroupResource()))
	if err != nil {
		t.Fatal(err)
	}
	c.monitors[resource.GroupResource()] = m
	now := metav1.NewTime(time.Unix(1, 0))
	for _, obj := range []*meta{
		{ObjectMeta: metav1.ObjectMeta{UID: "waiting", Name: "waiting", DeletionTimestamp: &now, Finalizers: []string{metav1.FinalizerDeleteDependents}}},
		{ObjectMeta: metav1.ObjectMeta{UID: "orphaning", Name: "orphaning", DeletionTimestamp: &now, Finalizers: []string{metav1.FinalizerOrphanDependents}}},
		{ObjectMeta: metav1.ObjectMeta{UID: "other", Name: "other", DeletionTimestamp: &now, Finalizers: []string{"example.com/hold"}}},
		{ObjectMeta: metav1.ObjectMeta{UID: "live", Name: "live", Finalizers: []string{metav1.FinalizerDeleteDependents}}},
	} {
		if err := m.informer.GetStore().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	c.lookAtBlocked()
	got := map[types.UID]bool{}
	for range c.queue.Len() {
		next, _ := c.queue.Get()
		got[next.uid] = true
	}
	if len(got) != 2 || !got["waiting"] || !got["orphaning"] {
		t.Errorf("looked at %v", got)
	}
	if c.expanded["waiting"] {
		t.Error("the dependents are not looked at once more")
	}
}
