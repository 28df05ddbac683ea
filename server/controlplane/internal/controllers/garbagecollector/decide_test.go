// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// testController is a controller that knows what is put into its monitors of ConfigMaps and Nodes. Its client has no objects.
type testController struct {
	*Controller
	mu sync.Mutex
	// answers are errors, or objects, by verb and name. An owner without an answer is not found.
	answers  map[string]any
	requests []string
	later    []object
}

func newTestController(t *testing.T, objects ...*meta) *testController {
	t.Helper()
	client := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	c := &testController{answers: map[string]any{}, Controller: &Controller{
		client: client, absent: lru.New(remembered), changed: make(chan struct{}, 1),
		monitors: map[schema.GroupResource]*monitor{}, defined: map[schema.GroupResource]time.Time{},
		unserved: map[schema.GroupResource]time.Time{}, expanded: map[types.UID]bool{},
		kinds: map[schema.GroupVersionKind]kind{
			{Version: "v1", Kind: "ConfigMap"}: {resource: configMaps, namespaced: true, monitored: true},
			{Version: "v1", Kind: "Node"}:      {resource: nodes, monitored: true},
		},
	}}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[object]())
	t.Cleanup(queue.ShutDown)
	c.queue = &laterQueue{queue, c}
	client.PrependReactor("*", "*", c.answer)
	for _, k := range c.kinds {
		m, err := newMonitor(client, k, c.handler(k.resource.GroupResource()))
		if err != nil {
			t.Fatal(err)
		}
		m.synced = func() bool { return true }
		m.watching = time.Now().Add(-catchUp)
		c.monitors[k.resource.GroupResource()] = m
	}
	for _, obj := range objects {
		if err := c.of(obj).informer.GetStore().Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// of returns the monitor of an object: those in namespaces are ConfigMaps, the others Nodes.
func (c *testController) of(obj *meta) *monitor {
	if obj.Namespace == "" {
		return c.monitors[nodes.GroupResource()]
	}
	return c.monitors[configMaps.GroupResource()]
}

func (c *testController) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	named := action.(interface{ GetName() string })
	what := action.GetVerb() + " " + named.GetName()
	request := what
	switch action := action.(type) {
	case clienttesting.DeleteActionImpl:
		p := action.DeleteOptions.Preconditions
		request += fmt.Sprintf(" %s uid %s version %s", *action.DeleteOptions.PropagationPolicy, *p.UID, *p.ResourceVersion)
	case clienttesting.PatchActionImpl:
		request += " " + string(action.GetPatch())
	}
	if action.GetNamespace() != "" {
		request += " in " + action.GetNamespace()
	}
	c.requests = append(c.requests, request)
	switch answer := c.answers[what].(type) {
	case error:
		return true, nil, answer
	case *meta:
		return true, answer, nil
	case func():
		answer()
	}
	if action.GetVerb() == "get" {
		return true, nil, apierrors.NewNotFound(action.GetResource().GroupResource(), named.GetName())
	}
	return true, &meta{}, nil
}

// laterQueue records what is added for later.
type laterQueue struct {
	workqueue.TypedRateLimitingInterface[object]
	c *testController
}

func (q *laterQueue) AddAfter(o object, _ time.Duration) { q.c.later = append(q.c.later, o) }

func (c *testController) queued() []string {
	var all []string
	for c.queue.Len() > 0 {
		next, _ := c.queue.Get()
		c.queue.Done(next)
		all = append(all, next.name)
	}
	slices.Sort(all)
	return all
}

// obj is a ConfigMap in the namespace ns.
func obj(name string, edit ...func(*meta)) *meta {
	o := &meta{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7"}}
	for _, f := range edit {
		f(o)
	}
	return o
}

func outside(o *meta) { o.Namespace = "" }

func deleted(finalizers ...string) func(*meta) {
	return func(o *meta) {
		o.DeletionTimestamp, o.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, finalizers
	}
}

func ownedBy(kind, name string, edit ...func(*metav1.OwnerReference)) func(*meta) {
	return func(o *meta) {
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID("uid-" + name)}
		for _, f := range edit {
			f(&ref)
		}
		o.OwnerReferences = append(o.OwnerReferences, ref)
	}
}

func blocking(ref *metav1.OwnerReference) { ref.BlockOwnerDeletion = ptr.To(true) }

func TestWhatIsCollected(t *testing.T) {
	t.Parallel()
	const (
		gone       = "get owner in ns"
		background = "delete it Background uid uid-it version 7 in ns"
		foreground = "delete it Foreground uid uid-it version 7 in ns"
	)
	byOwner := ownedBy("ConfigMap", "owner")
	waiting := obj("owner", deleted(metav1.FinalizerDeleteDependents))
	kept := `[{"apiVersion":"v1","kind":"ConfigMap","name":"holder","uid":"uid-holder"}]`
	relieve := `patch it {"metadata":{"ownerReferences":` + kept + `,"resourceVersion":"7","uid":"uid-it"}} in ns`
	for name, tc := range map[string]struct {
		it      *meta
		others  []*meta
		answers map[string]any
		edit    func(*testController)
		want    []string
		fails   bool
	}{
		"no owner":              {it: obj("it")},
		"an owner":              {it: obj("it", byOwner), others: []*meta{obj("owner")}},
		"an owner that is gone": {it: obj("it", byOwner), want: []string{gone, background}},
		"an owner not yet seen": {it: obj("it", byOwner), answers: map[string]any{"get owner": obj("owner")}, want: []string{gone}},
		"an owner that was replaced": {
			it: obj("it", byOwner), others: []*meta{obj("owner", func(o *meta) { o.UID = "2" })},
			answers: map[string]any{"get owner": obj("owner", func(o *meta) { o.UID = "2" })}, want: []string{gone, background},
		},
		"an owner of that name in another namespace": {
			it: obj("it", byOwner), others: []*meta{obj("owner", func(o *meta) { o.Namespace = "other" })}, want: []string{gone, background},
		},
		"an owner that cannot be read": {it: obj("it", byOwner), answers: map[string]any{"get owner": errors.New("away")}, want: []string{gone}, fails: true},
		"an owner whose server is away": {
			it: obj("it", byOwner), answers: map[string]any{"get owner": apierrors.NewGenericServerResponse(404, "get", configMaps.GroupResource(), "owner", "404 page not found", 0, true)},
			want: []string{gone}, fails: true,
		},
		"an owner of an unknown kind":         {it: obj("it", ownedBy("Jar", "owner")), fails: true},
		"an owner in a version that is none":  {it: obj("it", ownedBy("ConfigMap", "owner", func(ref *metav1.OwnerReference) { ref.APIVersion = "a/b/c" })), fails: true},
		"an owner outside of namespaces":      {it: obj("it", ownedBy("Node", "owner")), others: []*meta{obj("owner", outside)}},
		"such an owner that is gone":          {it: obj("it", ownedBy("Node", "owner")), want: []string{"get owner", background}},
		"outside of namespaces, owner in one": {it: obj("it", outside, byOwner)},
		"outside of namespaces, owner is gone": {
			it: obj("it", outside, ownedBy("Node", "owner")), want: []string{"get owner", "delete it Background uid uid-it version 7"},
		},
		"one owner is gone, another one holds": {
			it: obj("it", byOwner, ownedBy("ConfigMap", "holder")), others: []*meta{obj("holder")}, want: []string{gone, relieve},
		},
		"one owner waits, another one holds":      {it: obj("it", byOwner, ownedBy("ConfigMap", "holder")), others: []*meta{waiting, obj("holder")}, want: []string{relieve}},
		"being deleted":                           {it: obj("it", byOwner, deleted("example.com/hold"))},
		"to be orphaned":                          {it: obj("it", byOwner, func(o *meta) { o.Finalizers = []string{metav1.FinalizerOrphanDependents} }), want: []string{gone, "delete it Orphan uid uid-it version 7 in ns"}},
		"to be deleted in the foreground":         {it: obj("it", byOwner, func(o *meta) { o.Finalizers = []string{metav1.FinalizerDeleteDependents} }), want: []string{gone, foreground}},
		"its owner waits":                         {it: obj("it", byOwner), others: []*meta{waiting}, want: []string{background}},
		"its owner is deleted, and does not wait": {it: obj("it", byOwner), others: []*meta{obj("owner", deleted("example.com/hold"))}},
		"its owner waits, and it has dependents": {
			it: obj("it", byOwner), others: []*meta{waiting, obj("child", ownedBy("ConfigMap", "it"))}, want: []string{foreground},
		},
		"its owner is gone, and it has dependents": {it: obj("it", byOwner), others: []*meta{obj("child", ownedBy("ConfigMap", "it"))}, want: []string{gone, background}},
		"its owner waits for it, and it for its owner": {
			it: obj("it", ownedBy("ConfigMap", "owner", blocking)), others: []*meta{obj("owner", deleted(metav1.FinalizerDeleteDependents), ownedBy("ConfigMap", "it"))},
			want: []string{
				`patch it {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"uid-owner","blockOwnerDeletion":false}],"resourceVersion":"7","uid":"uid-it"}} in ns`,
				foreground,
			},
		},
		"it cannot be unblocked": {
			it: obj("it", ownedBy("ConfigMap", "owner", blocking)), others: []*meta{obj("owner", deleted(metav1.FinalizerDeleteDependents), ownedBy("ConfigMap", "it"))},
			answers: map[string]any{"patch it": errors.New("away")}, fails: true,
			want: []string{`patch it {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner","uid":"uid-owner","blockOwnerDeletion":false}],"resourceVersion":"7","uid":"uid-it"}} in ns`},
		},
		"gone meanwhile":          {it: obj("it", byOwner), answers: map[string]any{"delete it": apierrors.NewNotFound(configMaps.GroupResource(), "it")}, want: []string{gone, background}},
		"changed meanwhile":       {it: obj("it", byOwner), answers: map[string]any{"delete it": apierrors.NewConflict(configMaps.GroupResource(), "it", nil)}, want: []string{gone, background}, fails: true},
		"its kind is not served":  {it: obj("it", byOwner), edit: func(c *testController) { c.monitors[configMaps.GroupResource()].away.Store(true) }},
		"its kind has no monitor": {it: obj("it", byOwner), edit: func(c *testController) { delete(c.monitors, configMaps.GroupResource()) }},
		"replaced": {it: obj("it", byOwner), edit: func(c *testController) {
			_ = c.monitors[configMaps.GroupResource()].informer.GetStore().Add(obj("it", byOwner, func(o *meta) { o.UID = "2" }))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestController(t, append(tc.others, tc.it)...)
			if tc.answers != nil {
				c.answers = tc.answers
			}
			it := c.of(tc.it).object(tc.it)
			if tc.edit != nil {
				tc.edit(c)
			}
			if err := c.decide(t.Context(), it); (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, c.requests); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestAnUnblockedObjectIsDecidedUponAnew changes an object in the store while it is unblocked.
func TestAnUnblockedObjectIsDecidedUponAnew(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"changed": "8", "gone": ""} {
		it := obj("it", ownedBy("ConfigMap", "owner", blocking))
		c := newTestController(t, it, obj("owner", deleted(metav1.FinalizerDeleteDependents), ownedBy("ConfigMap", "it")))
		store := c.of(it).informer.GetStore()
		c.answers["patch it"] = func() {
			if _ = store.Delete(it); version != "" {
				_ = store.Add(obj("it", func(o *meta) { o.ResourceVersion = version }))
			}
		}
		if err := c.decide(t.Context(), c.of(it).object(it)); err != nil || len(c.requests) != 1 {
			t.Errorf("%s: %v, requests %q", name, err, c.requests)
		}
	}
}

func TestAnOwnerThatIsGoneIsAskedForOnce(t *testing.T) {
	t.Parallel()
	a, b := obj("a", ownedBy("ConfigMap", "owner")), obj("b", ownedBy("ConfigMap", "owner"))
	c := newTestController(t, a, b)
	for _, o := range []*meta{a, b} {
		if err := c.decide(t.Context(), c.of(o).object(o)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.requests) != 3 {
		t.Errorf("the requests are %q", c.requests)
	}
}

func TestOwnersThatWait(t *testing.T) {
	t.Parallel()
	const (
		letGo     = `patch it {"metadata":{"finalizers":["example.com/hold"],"resourceVersion":"7","uid":"uid-it"}} in ns`
		disown    = `patch child {"metadata":{"ownerReferences":[],"resourceVersion":"7","uid":"uid-child"}} in ns`
		disownAll = `patch other {"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"holder","uid":"uid-holder"}],"resourceVersion":"7","uid":"uid-other"}} in ns`
	)
	foreground := obj("it", deleted(metav1.FinalizerDeleteDependents, "example.com/hold"))
	orphaning := obj("it", deleted(metav1.FinalizerOrphanDependents, "example.com/hold"))
	for name, tc := range map[string]struct {
		it      *meta
		others  []*meta
		answers map[string]any
		edit    func(*testController)
		want    []string
		queued  []string
		later   int
		fails   bool
	}{
		"foreground, without dependents":    {it: foreground, want: []string{letGo}},
		"foreground, blocked":               {it: foreground, others: []*meta{obj("child", ownedBy("ConfigMap", "it", blocking))}, queued: []string{"child"}},
		"foreground, not blocked":           {it: foreground, others: []*meta{obj("child", ownedBy("ConfigMap", "it"))}, want: []string{letGo}, queued: []string{"child"}},
		"foreground, blocked by one of two": {it: foreground, others: []*meta{obj("child", ownedBy("ConfigMap", "it", blocking)), obj("other", ownedBy("ConfigMap", "it"))}, queued: []string{"child", "other"}},
		"foreground, passed on already": {
			it: foreground, others: []*meta{obj("child", ownedBy("ConfigMap", "it", blocking))}, edit: func(c *testController) { c.expanded["uid-it"] = true },
		},
		"foreground, not all known": {it: foreground, edit: unsynced, later: 1},
		"foreground, dependent of a kind that is not served": {
			it: foreground, others: []*meta{obj("child", outside, ownedBy("ConfigMap", "it", blocking))}, queued: []string{"child"},
			edit: func(c *testController) { c.monitors[nodes.GroupResource()].away.Store(true) },
		},
		"orphaning, without dependents": {it: orphaning, want: []string{letGo}},
		"orphaning": {
			it: orphaning, want: []string{disown, disownAll, letGo},
			others: []*meta{obj("child", ownedBy("ConfigMap", "it")), obj("other", ownedBy("ConfigMap", "it"), ownedBy("ConfigMap", "holder"))},
		},
		"orphaning, a dependent cannot be written": {
			it: orphaning, others: []*meta{obj("child", ownedBy("ConfigMap", "it"))}, answers: map[string]any{"patch child": errors.New("away")},
			want: []string{disown}, fails: true,
		},
		"orphaning, a dependent is gone": {
			it: orphaning, others: []*meta{obj("child", ownedBy("ConfigMap", "it"))},
			answers: map[string]any{"patch child": apierrors.NewNotFound(configMaps.GroupResource(), "child")}, want: []string{disown, letGo},
		},
		"orphaning, not all known": {it: orphaning, edit: unsynced, later: 1},
		"orphaning, dependent of a kind that is not served": {
			it: orphaning, others: []*meta{obj("child", outside, ownedBy("ConfigMap", "it"))}, fails: true,
			edit: func(c *testController) { c.monitors[nodes.GroupResource()].away.Store(true) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestController(t, append(tc.others, tc.it)...)
			if tc.answers != nil {
				c.answers = tc.answers
			}
			if tc.edit != nil {
				tc.edit(c)
			}
			if err := c.decide(t.Context(), c.of(tc.it).object(tc.it)); (err != nil) != tc.fails {
				t.Errorf("the error is %v, want one %t", err, tc.fails)
			}
			if len(c.requests) > 1 {
				slices.Sort(c.requests[:len(c.requests)-1]) // Dependents are written side by side.
			}
			if diff := cmp.Diff(tc.want, c.requests); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.queued, c.queued()); diff != "" || len(c.later) != tc.later {
				t.Errorf("looked at later: %v; now (-want,+got):\n%s", c.later, diff)
			}
		})
	}
}

func unsynced(c *testController) {
	c.monitors[nodes.GroupResource()].synced = func() bool { return false }
}

func TestWritesGoOnTopOfOthers(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(configMaps.GroupResource(), "it", nil)
	for name, tc := range map[string]struct {
		patch, get any
		want       int
		fails      bool
	}{
		"written":                 {nil, nil, 1, false},
		"changes all the time":    {conflict, obj("it", deleted(metav1.FinalizerDeleteDependents)), 2 * attempts, true},
		"done by somebody else":   {conflict, obj("it", deleted("example.com/hold")), 2, false},
		"gone":                    {conflict, nil, 2, false},
		"replaced":                {conflict, obj("it", deleted(metav1.FinalizerDeleteDependents), func(o *meta) { o.UID = "2" }), 2, false},
		"cannot be read":          {conflict, errors.New("away"), 2, true},
		"refused":                 {errors.New("no"), nil, 1, true},
		"gone before it is known": {apierrors.NewNotFound(configMaps.GroupResource(), "it"), nil, 1, false},
	} {
		it := obj("it", deleted(metav1.FinalizerDeleteDependents))
		c := newTestController(t, it)
		c.answers["patch it"], c.answers["get it"] = tc.patch, tc.get
		if err := c.removeFinalizer(t.Context(), c.of(it), it, metav1.FinalizerDeleteDependents); (err != nil) != tc.fails || len(c.requests) != tc.want {
			t.Errorf("%s: %v after %q", name, err, c.requests)
		}
	}
	for name, tc := range map[string]struct {
		before, after []metav1.OwnerReference
		writes        int
	}{
		"the same":             {[]metav1.OwnerReference{{UID: "1"}}, []metav1.OwnerReference{{UID: "1"}}, 0},
		"none before or after": {nil, []metav1.OwnerReference{}, 0},
		"one less":             {[]metav1.OwnerReference{{UID: "1"}}, []metav1.OwnerReference{}, 1},
		"one more":             {nil, []metav1.OwnerReference{{UID: "1"}}, 1},
	} {
		it := obj("it", func(o *meta) { o.OwnerReferences = tc.before })
		c := newTestController(t, it)
		err := c.setOwners(t.Context(), c.of(it), it, func([]metav1.OwnerReference) []metav1.OwnerReference { return tc.after })
		if err != nil || len(c.requests) != tc.writes {
			t.Errorf("%s: %v after %q", name, err, c.requests)
		}
	}
}
