// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
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
	for range 2 { // an orphaning object comes after catchUp
		next, _ := c.queue.Get()
		got[next.uid] = true
	}
	if c.queue.Len() != 0 || !got["waiting"] || !got["orphaning"] {
		t.Errorf("looked at %v", got)
	}
	if c.expanded["waiting"] {
		t.Error("the dependents are not looked at once more")
	}
}

// TestOrphaningWaitsForRefusedWatches lists a kind whose watch the server refuses at first, as it does while its cache starts. What was
// written after the list is not known then: orphaning would overlook it, and it would be collected as garbage later.
func TestOrphaningWaitsForRefusedWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
		refused, events := true, watch.NewFake()
		client.PrependWatchReactor("*", func(clienttesting.Action) (bool, watch.Interface, error) {
			if refused {
				return true, nil, apierrors.NewTooManyRequests("storage is (re)initializing", 1)
			}
			return true, events, nil
		})
		m, err := newMonitor(client, kind{resource: configMaps, namespaced: true}, cache.ResourceEventHandlerFuncs{})
		if err != nil {
			t.Fatal(err)
		}
		check := func(state string, want bool) {
			t.Helper()
			synctest.Wait()
			if got := m.isWaitedFor(); got != want {
				t.Errorf("%s: waited for %t, want %t", state, got, want)
			}
		}
		m.start(t.Context(), func(context.Context, *monitor) {})
		time.Sleep(catchUp) //nolint:forbidigo // in a bubble, it takes no time
		if synctest.Wait(); !m.synced() {
			t.Fatal("the list was not handled")
		}
		check("the watch is refused", true)
		refused = false
		for m.watching.IsZero() {
			time.Sleep(time.Millisecond) //nolint:forbidigo // in a bubble, it takes no time
			synctest.Wait()
		}
		check("the watch was just opened", true)
		time.Sleep(catchUp) //nolint:forbidigo // in a bubble, it takes no time
		check("the watch is open", false)
		refused = true
		events.Stop()
		check("the watch ended", true)
		time.Sleep(patience) //nolint:forbidigo // in a bubble, it takes no time
		check("the watch is refused for long", false)
		m.end()
	})
}
