// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// noted is a queue that notes what is added to it.
type noted struct {
	workqueue.TypedRateLimitingInterface[string]
	added []string
}

func (n *noted) Add(key string) { n.added = append(n.added, key+" now") }
func (n *noted) AddAfter(key string, after time.Duration) {
	n.added = append(n.added, key+" after "+after.String())
}
func (n *noted) AddRateLimited(key string) { n.added = append(n.added, key+" after an error") }
func (n *noted) Forget(string)             {}
func (n *noted) check(t *testing.T, when string, want ...string) {
	t.Helper()
	if !slices.Equal(n.added, want) {
		t.Errorf("%s: the queue got %v, want %v", when, n.added, want)
	}
	n.added = nil
}

// newNoted returns a controller of one quota whose queue is noted.
func newNoted(t *testing.T) (*counting, *noted) {
	t.Helper()
	c := newCounting(t)
	c.want("at first", 0)
	queue := &noted{TypedRateLimitingInterface: c.queue}
	c.queue = queue
	return c, queue
}

func TestWhenAChangedQuotaIsCounted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(after *corev1.ResourceQuota)
		unseen bool // whether the quota is new to the controller
		want   string
	}{
		"admission has charged it": {func(after *corev1.ResourceQuota) { after.Status.Used["secrets"] = resource.MustParse("1") }, false, "ns/quota after 5m0s"},
		"its limits have changed":  {func(after *corev1.ResourceQuota) { after.Spec.Hard["secrets"] = resource.MustParse("1") }, false, "ns/quota now"},
		"it was charged, and its limits have changed": {func(after *corev1.ResourceQuota) {
			after.Status.Used["secrets"], after.Spec.Hard["secrets"] = resource.MustParse("1"), resource.MustParse("1")
		}, false, "ns/quota now"},
		"it was lowered": {func(after *corev1.ResourceQuota) { after.Status.Used["secrets"] = resource.MustParse("-1") }, false, "ns/quota now"},
		"it was made again": {func(after *corev1.ResourceQuota) {
			after.UID, after.Status.Used["secrets"] = "other", resource.MustParse("1")
		}, false, "ns/quota now"},
		"it is new": {func(after *corev1.ResourceQuota) { after.Status.Used["secrets"] = resource.MustParse("1") }, true, "ns/quota now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, queue := newNoted(t)
			before, after := c.quota, c.quota.DeepCopy()
			after.ResourceVersion = c.next()
			tc.change(after)
			if tc.unseen {
				before = nil
			}
			c.changed(before, after)
			queue.check(t, name, tc.want)
		})
	}
}

func TestADeletedQuotaIsForgotten(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(*corev1.ResourceQuota) any{
		"seen": func(quota *corev1.ResourceQuota) any { return quota },
		"missed": func(quota *corev1.ResourceQuota) any {
			return cache.DeletedFinalStateUnknown{Key: "ns/quota", Obj: quota}
		},
	} {
		c, queue := newNoted(t)
		c.charge(1)
		queue.added = nil
		c.deleted(wrap(c.quota))
		queue.check(t, name, "ns/quota now")
		if recent, _ := c.charges.recent(c.quota.UID, corev1.ResourceSecrets); !recent.IsZero() {
			t.Errorf("%s: %s charges are remembered", name, recent.String())
		}
	}
}

// TestObjectsThatComeAndGo has objects of several kinds come and go, of which a quota counts secrets by two names and configmaps.
func TestObjectsThatComeAndGo(t *testing.T) {
	t.Parallel()
	secrets, configMaps := corev1.SchemeGroupVersion.WithResource("secrets"), corev1.SchemeGroupVersion.WithResource("configmaps")
	for name, tc := range map[string]struct {
		resource  schema.GroupVersionResource
		namespace string
		event     watch.EventType
		want      []string
		deletions map[corev1.ResourceName]int
	}{
		"a secret comes":                   {secrets, "ns", watch.Added, []string{"ns/quota after 1s", "ns/quota after 1s"}, nil},
		"a secret goes":                    {secrets, "ns", watch.Deleted, []string{"ns/quota after 200ms", "ns/quota after 200ms"}, map[corev1.ResourceName]int{"secrets": 1, "count/secrets": 1}},
		"a secret changes":                 {secrets, "ns", watch.Modified, nil, nil},
		"a secret of another namespace":    {secrets, "other", watch.Deleted, nil, nil},
		"a configmap goes":                 {configMaps, "ns", watch.Deleted, []string{"ns/quota after 200ms"}, map[corev1.ResourceName]int{"configmaps": 1}},
		"a definition, which is not there": {definitions, "", watch.Deleted, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, queue := newNoted(t)
			c.quota.Spec.Hard["configmaps"], c.quota.Spec.Hard["pods"] = resource.MustParse("1"), resource.MustParse("1")
			c.informed()
			c.observe(tc.resource.GroupResource(), tc.resource, tc.event, &metav1.PartialObjectMetadata{
				ObjectMeta: metav1.ObjectMeta{Namespace: tc.namespace, Name: "x.example.com", ResourceVersion: c.next()},
			})
			queue.check(t, name, tc.want...)
			for _, of := range []corev1.ResourceName{"secrets", "count/secrets", "configmaps"} {
				if got := c.charges.deletions(c.quota.UID, of); got != tc.deletions[of] {
					t.Errorf("%d deletions of %s, want %d", got, of, tc.deletions[of])
				}
			}
		})
	}
}

func TestADefinitionHasItsKindAskedForAgain(t *testing.T) {
	t.Parallel()
	c, queue := newNoted(t)
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	c.known.answers[widgets] = answer{again: lastAsk, asked: time.Now()}
	c.following.follow(t.Context(), "ns/quota", map[schema.GroupResource]schema.GroupVersionResource{definitions.GroupResource(): definitions})
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
	c.observe(corev1.Resource("secrets"), corev1.SchemeGroupVersion.WithResource("secrets"), watch.Modified, object)
	queue.check(t, "something else with that name")
	c.observe(definitions.GroupResource(), definitions, watch.Modified, object)
	queue.check(t, "the definition", "ns/quota now")
	if _, known := c.known.answers[widgets]; known {
		t.Error("it is still known that there is no such kind")
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		prepare func(c *counting)
		want    time.Duration
		fails   bool
	}{
		"counted":                    {func(*counting) {}, 0, false},
		"to be counted again":        {func(c *counting) { c.charge(1) }, 5 * time.Minute, false},
		"not counted":                {func(c *counting) { c.failLists(errors.New("away")) }, 0, true},
		"of a kind that is gone now": {func(c *counting) { c.failLists(apierrors.NewNotFound(corev1.Resource("secrets"), "")) }, 20 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := newNoted(t)
			tc.prepare(c)
			got, err := c.reconcile(t.Context(), "ns/quota")
			if got != tc.want || (err != nil) != tc.fails {
				t.Errorf("reconcile returned %v, %v; want %v, and an error: %v", got, err, tc.want, tc.fails)
			}
		})
	}
}

// TestObjectsAreWatched has the watch of a kind fail, and begin again, in a bubble.
func TestObjectsAreWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		client := metadatafake.NewSimpleMetadataClient(scheme)
		var failing error
		missed, seen, began := 0, 0, 0
		events := watch.NewFake()
		client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			began++
			if failing != nil {
				return true, nil, failing
			}
			return true, &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, nil
		})
		client.PrependWatchReactor("secrets", func(action clienttesting.Action) (bool, watch.Interface, error) {
			if version := action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion; version != "7" {
				t.Errorf("the watch begins at %q", version)
			}
			return true, events, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		s := stream{client: metadata.Interface(client), resource: corev1.SchemeGroupVersion.WithResource("secrets"), missed: func() { missed++ },
			event: func(watch.EventType, *metav1.PartialObjectMetadata) { seen++ }}
		check := func(when string, wantMissed, wantSeen, wantBegan int) {
			t.Helper()
			synctest.Wait()
			if missed != wantMissed || seen != wantSeen || began != wantBegan {
				t.Errorf("%s: %d times events were missed, %d were seen, and the watch began %d times; want %d, %d, %d", when, missed, seen, began, wantMissed, wantSeen, wantBegan)
			}
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.run(ctx)
		}()
		check("at first", 1, 0, 1)
		events.Add(&metav1.PartialObjectMetadata{})
		events.Delete(&metav1.PartialObjectMetadata{})
		events.Add(&corev1.Secret{})
		check("with two events, and something else", 1, 2, 1)
		failing = errors.New("away")
		events.Error(&metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: 410})
		check("expired", 1, 2, 1)
		time.Sleep(firstRetry) //nolint:forbidigo // in a bubble, it takes no time
		check("the server is away", 1, 2, 2)
		time.Sleep(2 * firstRetry) //nolint:forbidigo // in a bubble, it takes no time
		check("still away", 1, 2, 3)
		failing = apierrors.NewNotFound(corev1.Resource("secrets"), "")
		time.Sleep(4 * firstRetry) //nolint:forbidigo // in a bubble, it takes no time
		check("there is no such kind any more", 2, 2, 4)
		failing, events = nil, watch.NewFake()
		time.Sleep(8 * firstRetry) //nolint:forbidigo // in a bubble, it takes no time
		check("the kind is back", 3, 2, 5)
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble, it takes no time
		last := events
		events = watch.NewFake()
		last.Stop()
		check("the watch has ended after a minute", 3, 2, 5)
		time.Sleep(16 * firstRetry) //nolint:forbidigo // in a bubble, it takes no time
		check("it begins again", 4, 2, 6)
		events.Stop()
		time.Sleep(firstRetry * 2) //nolint:forbidigo // in a bubble, it takes no time
		check("the pauses are short again, as the one before lasted", 5, 2, 7)
		cancel()
		events.Stop()
		<-ended
	})
}

// TestCountingByPages has lists of secrets be continued.
func TestCountingByPages(t *testing.T) {
	t.Parallel()
	remaining := int64(40)
	page := func(items int, next string, remaining *int64) *metav1.List {
		list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: next, RemainingItemCount: remaining}}
		for range items {
			list.Items = append(list.Items, runtime.RawExtension{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}}})
		}
		return list
	}
	for name, tc := range map[string]struct {
		pages []*metav1.List
		want  int64
	}{
		"none":                             {[]*metav1.List{page(0, "", nil)}, 0},
		"one":                              {[]*metav1.List{page(1, "", nil)}, 1},
		"the server says how many":         {[]*metav1.List{page(1, "next", &remaining)}, 41},
		"the server does not say how many": {[]*metav1.List{page(1, "next", nil), page(3, "more", nil), page(2, "", nil)}, 6},
	} {
		scheme := metadatafake.NewTestScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		client := metadatafake.NewSimpleMetadataClient(scheme)
		asked := 0
		client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			asked++
			return true, tc.pages[asked-1], nil
		})
		got, err := count(t.Context(), client, corev1.SchemeGroupVersion.WithResource("secrets"), "ns")
		if err != nil || got != (counted{tc.want, "9"}) || asked != len(tc.pages) {
			t.Errorf("%s: got %v after %d pages, %v; want %d after %d", name, got, asked, err, tc.want, len(tc.pages))
		}
	}
}
