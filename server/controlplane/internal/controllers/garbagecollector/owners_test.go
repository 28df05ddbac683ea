// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

func TestAllDependentsAreKnown(t *testing.T) {
	t.Parallel()
	jars := schema.GroupResource{Group: "example.com", Resource: "jars"}
	now, longAgo := time.Now(), time.Now().Add(-patience-time.Second)
	for name, tc := range map[string]struct {
		edit func(*testController)
		want bool
	}{
		"all listed":                   {func(*testController) {}, true},
		"nothing is known":             {func(c *testController) { clear(c.monitors) }, false},
		"one is not listed yet":        {unsynced, false},
		"one cannot be listed":         {func(c *testController) { unsynced(c); c.monitors[nodes.GroupResource()].outdated = longAgo }, true},
		"one is not watched":           {func(c *testController) { c.monitors[nodes.GroupResource()].watching = time.Time{} }, false},
		"one is watched again":         {func(c *testController) { c.monitors[nodes.GroupResource()].watching = now }, false},
		"discovery is incomplete":      {func(c *testController) { c.incomplete = now }, false},
		"it has been for long":         {func(c *testController) { c.incomplete = longAgo }, true},
		"one is defined only":          {func(c *testController) { c.unserved[jars] = now }, false},
		"it has been for long as well": {func(c *testController) { c.unserved[jars] = longAgo }, true},
		"one is served by now":         {func(c *testController) { c.unserved[nodes.GroupResource()] = now }, true},
	} {
		c := newTestController(t)
		if tc.edit(c); c.allKnown() != tc.want {
			t.Errorf("%s: known %t, want %t", name, !tc.want, tc.want)
		}
	}
}

func TestDependentsOfFormerMonitorsCount(t *testing.T) {
	t.Parallel()
	c := newTestController(t, obj("new", ownedBy("ConfigMap", "it")), obj("both"))
	former := newTestController(t, obj("old", ownedBy("ConfigMap", "it")), obj("both", ownedBy("ConfigMap", "it")))
	c.of(obj("it")).previous = former.of(obj("it"))
	got := map[string]bool{}
	for _, d := range c.dependents("uid-it") {
		got[d.Name] = true
	}
	if diff := cmp.Diff(map[string]bool{"new": true, "old": true}, got); diff != "" {
		t.Errorf("dependents (-want,+got):\n%s", diff)
	}
}

func TestKindsOfReferences(t *testing.T) {
	t.Parallel()
	jar := func(version string, former bool) kind {
		return kind{resource: schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "jars"}, former: former}
	}
	gvk := func(version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: version, Kind: kind}
	}
	jars := jar("", false).resource.GroupResource()
	for name, tc := range map[string]struct {
		kinds   map[schema.GroupVersionKind]kind
		defined map[schema.GroupResource]time.Time
		want    kind
		known   bool
	}{
		"served":                                 {kinds: map[schema.GroupVersionKind]kind{gvk("v1", "Jar"): jar("v1", false)}, want: jar("v1", false), known: true},
		"never served":                           {},
		"not served any more":                    {kinds: map[schema.GroupVersionKind]kind{gvk("v1", "Jar"): jar("v1", true)}, want: jar("v1", true), known: true},
		"another kind of the group":              {kinds: map[schema.GroupVersionKind]kind{gvk("v1", "Lid"): jar("v1", false)}, defined: map[schema.GroupResource]time.Time{jars: {}}},
		"defined, served in another version":     {kinds: map[schema.GroupVersionKind]kind{gvk("v2", "Jar"): jar("v2", false)}, defined: map[schema.GroupResource]time.Time{jars: {}}, want: jar("v2", false), known: true},
		"defined, another version is former":     {kinds: map[schema.GroupVersionKind]kind{gvk("v2", "Jar"): jar("v2", true)}, defined: map[schema.GroupResource]time.Time{jars: {}}},
		"defined no more, served in another":     {kinds: map[schema.GroupVersionKind]kind{gvk("v2", "Jar"): jar("v2", false)}, defined: map[schema.GroupResource]time.Time{jars: time.Now()}},
		"of another server, served in another":   {kinds: map[schema.GroupVersionKind]kind{gvk("v2", "Jar"): jar("v2", false)}},
		"former in this version, defined in one": {kinds: map[schema.GroupVersionKind]kind{gvk("v1", "Jar"): jar("v1", true), gvk("v2", "Jar"): jar("v2", false)}, defined: map[schema.GroupResource]time.Time{jars: {}}, want: jar("v2", false), known: true},
	} {
		c := newTestController(t)
		c.kinds, c.defined = tc.kinds, tc.defined
		got, known := c.kindOf(metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Jar"})
		if got != tc.want || known != tc.known {
			t.Errorf("%s: %+v, %t; want %+v, %t", name, got, known, tc.want, tc.known)
		}
	}
}

func TestOwnersOfKindsThatAreNotServedAnyMore(t *testing.T) {
	t.Parallel()
	jar := kind{resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "jars"}, namespaced: true, former: true}
	notFound := apierrors.NewNotFound(definitions, "jars.example.com")
	for name, tc := range map[string]struct {
		defined, followed bool
		definition        any
		want              []string
	}{
		"its definition is gone":                  {true, true, notFound, []string{"get jars.example.com", "delete it Background uid uid-it version 7 in ns"}},
		"its definition is there":                 {true, true, obj("jars.example.com"), []string{"get jars.example.com"}},
		"its definition cannot be read":           {true, true, errors.New("away"), []string{"get jars.example.com"}},
		"it was never defined":                    {false, true, notFound, nil},
		"definitions are not followed any longer": {true, false, notFound, nil},
	} {
		it := obj("it", ownedBy("Jar", "owner", func(ref *metav1.OwnerReference) { ref.APIVersion = "example.com/v1" }))
		c := newTestController(t, it)
		c.kinds[schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Jar"}] = jar
		if tc.defined {
			c.defined[jar.resource.GroupResource()] = time.Time{}
		}
		if tc.followed {
			c.monitors[definitions] = &monitor{client: c.client.Resource(definitions.WithVersion("v1")), informer: c.of(obj("x", outside)).informer, synced: func() bool { return true }}
		}
		c.answers["get jars.example.com"] = tc.definition
		err := c.decide(t.Context(), c.of(it).object(it))
		if deleted := len(tc.want) == 2; (err == nil) != deleted {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, c.requests); diff != "" {
			t.Errorf("%s: requests (-want,+got):\n%s", name, diff)
		}
	}
}

func TestWhatAChangeBringsUp(t *testing.T) {
	t.Parallel()
	waiting := obj("owner", deleted(metav1.FinalizerDeleteDependents))
	owned := ownedBy("ConfigMap", "owner")
	another := func(o *meta) { o.UID = "2" }
	for name, tc := range map[string]struct {
		old, obj *meta
		others   []*meta
		queued   []string
		later    int
	}{
		"nothing":                            {old: obj("it", owned), obj: obj("it", owned)},
		"a first owner":                      {old: obj("it"), obj: obj("it", owned), queued: []string{"it"}},
		"no owner any more":                  {old: obj("it", owned), obj: obj("it")},
		"no owner, whose deletion waits":     {old: obj("it", owned), obj: obj("it"), others: []*meta{waiting}, later: 1},
		"no owner, which is not deleted":     {old: obj("it", owned), obj: obj("it"), others: []*meta{obj("owner")}},
		"another, of its name":               {old: obj("it", owned), obj: obj("it", owned, another), others: []*meta{waiting, obj("child", ownedBy("ConfigMap", "it"))}, queued: []string{"child", "it"}, later: 1},
		"deleted in the foreground":          {old: obj("it"), obj: obj("it", deleted(metav1.FinalizerDeleteDependents)), queued: []string{"it"}},
		"deleted in the foreground before":   {old: obj("it", owned, deleted(metav1.FinalizerDeleteDependents)), obj: obj("it", owned, deleted(metav1.FinalizerDeleteDependents)), others: []*meta{waiting}, queued: []string{"it"}},
		"deleted, which its owner waits for": {old: obj("it", owned), obj: obj("it", owned, deleted(metav1.FinalizerDeleteDependents)), others: []*meta{waiting}, queued: []string{"it"}, later: 1},
		"deleted, and held by others":        {old: obj("it"), obj: obj("it", deleted("example.com/hold"))},
	} {
		c := newTestController(t, tc.others...)
		c.changedFrom(configMaps.GroupResource(), tc.old, tc.obj)
		if diff := cmp.Diff(tc.queued, c.queued()); diff != "" || len(c.later) != tc.later {
			t.Errorf("%s: later %v; now (-want,+got):\n%s", name, c.later, diff)
		}
	}
	for name, tc := range map[string]struct {
		obj   *meta
		want  []string
		later int
	}{
		"plain":             {obj: obj("it")},
		"owned":             {obj: obj("it", owned), want: []string{"it"}},
		"orphaning":         {obj: obj("it", deleted(metav1.FinalizerOrphanDependents)), later: 1}, // after the events of other kinds
		"deleted by others": {obj: obj("it", deleted("example.com/hold"))},
	} {
		c := newTestController(t)
		c.appeared(configMaps.GroupResource(), tc.obj)
		if diff := cmp.Diff(tc.want, c.queued()); diff != "" || len(c.later) != tc.later {
			t.Errorf("%s appears: later %v; now (-want,+got):\n%s", name, c.later, diff)
		}
	}
}

// TestWhatDefinesKindsHasThemAskedFor handles events of definitions, APIServices and others.
func TestWhatDefinesKindsHasThemAskedFor(t *testing.T) {
	t.Parallel()
	jars := schema.GroupResource{Group: "example.com", Resource: "jars"}
	for group, want := range map[string]bool{"apiextensions.k8s.io": true, "apiregistration.k8s.io": true, "example.com": false, "": false} {
		c := newTestController(t)
		handler := c.handler(schema.GroupResource{Group: group, Resource: "things"})
		for _, event := range []func(){
			func() { handler.OnAdd(obj("jars.example.com"), false) },
			func() { handler.OnUpdate(obj("jars.example.com"), obj("jars.example.com")) },
			func() { handler.OnDelete(obj("jars.example.com")) },
		} {
			event()
			select {
			case <-c.changed:
				if !want {
					t.Errorf("an event of group %q has the kinds asked for", group)
				}
			default:
				if want {
					t.Errorf("an event of group %q does not have the kinds asked for", group)
				}
			}
		}
		if len(c.defined) > 0 || len(c.unserved) > 0 {
			t.Errorf("an event of group %q defines %v", group, c.defined)
		}
	}
	c := newTestController(t)
	handler := c.handler(definitions)
	handler.OnAdd(obj("jars.example.com"), false)
	handler.OnAdd(obj("nodes"), false)
	if _, defined := c.defined[jars]; !defined || c.unserved[jars].IsZero() || !c.unserved[nodes.GroupResource()].IsZero() {
		t.Errorf("defined %v, not served %v", c.defined, c.unserved)
	}
	handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: obj("jars.example.com")})
	if _, defined := c.defined[jars]; !defined || len(c.unserved) > 0 {
		t.Errorf("after the definition is gone: defined %v, not served %v", c.defined, c.unserved)
	}
}

func TestKindsInDiscovery(t *testing.T) {
	t.Parallel()
	groupOf := func(name string, versions ...string) *metav1.APIGroup {
		g := &metav1.APIGroup{Name: name}
		for _, version := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version})
		}
		g.PreferredVersion = g.Versions[len(g.Versions)-1]
		return g
	}
	resource := func(name, kind string, verbs ...string) metav1.APIResource {
		return metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: verbs}
	}
	all := []string{"list", "watch", "delete"}
	got := kindsIn(
		[]*metav1.APIGroup{groupOf("", "v1"), groupOf("example.com", "example.com/v1", "example.com/v2"), groupOf("events.k8s.io", "events.k8s.io/v1"), groupOf("away", "away/v1"), groupOf("bad", "a/b/c")},
		[]*metav1.APIResourceList{
			{GroupVersion: "v1", APIResources: []metav1.APIResource{resource("pods", "Pod", all...), resource("pods/status", "Pod", all...), resource("events", "Event", all...), resource("bindings", "Binding", "create")}},
			{GroupVersion: "events.k8s.io/v1", APIResources: []metav1.APIResource{resource("events", "Event", all...)}},
			{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{resource("jars", "Jar", all...), resource("events", "Event", all...)}},
			{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{resource("jars", "Jar", all[:2]...)}},
			{GroupVersion: "a/b/c", APIResources: []metav1.APIResource{resource("jars", "Jar", all...)}},
		})
	k := func(group, version, name string, monitored bool) kind {
		return kind{resource: schema.GroupVersionResource{Group: group, Version: version, Resource: name}, namespaced: true, monitored: monitored}
	}
	want := map[schema.GroupVersionKind]kind{
		{Version: "v1", Kind: "Pod"}:                         k("", "v1", "pods", true),
		{Version: "v1", Kind: "Binding"}:                     k("", "v1", "bindings", false),
		{Group: "example.com", Version: "v1", Kind: "Jar"}:   k("example.com", "v2", "jars", false),
		{Group: "example.com", Version: "v2", Kind: "Jar"}:   k("example.com", "v2", "jars", false),
		{Group: "example.com", Version: "v1", Kind: "Event"}: k("example.com", "v1", "events", true),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(kind{})); diff != "" {
		t.Errorf("kinds (-want,+got):\n%s", diff)
	}
}

func TestGroupsOfWhichNothingIsKnown(t *testing.T) {
	t.Parallel()
	before := time.Now().Add(-time.Minute)
	for name, tc := range map[string]struct {
		unknown []string
		since   time.Time
		want    string
	}{
		"none":                        {nil, time.Time{}, "complete"},
		"none any more":               {nil, before, "complete"},
		"one that is monitored":       {[]string{""}, before, "complete"},
		"one that never was":          {[]string{"example.com"}, time.Time{}, "since now"},
		"one that never was, still":   {[]string{"example.com"}, before, "since before"},
		"one of two is not monitored": {[]string{"", "example.com"}, before, "since before"},
	} {
		c := newTestController(t)
		c.incomplete = tc.since
		c.noteMissing(sets.New(tc.unknown...))
		got := "since now"
		switch {
		case c.incomplete.IsZero():
			got = "complete"
		case c.incomplete.Equal(before):
			got = "since before"
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestThereIsNoSuchObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"no error":                 {nil, false},
		"another error":            {errors.New("away"), false},
		"not found":                {apierrors.NewNotFound(configMaps.GroupResource(), "it"), true},
		"another is not found":     {apierrors.NewNotFound(configMaps.GroupResource(), "other"), false},
		"not served":               {apierrors.NewGenericServerResponse(404, "get", configMaps.GroupResource(), "it", "404 page not found", 0, true), false},
		"not found, nothing named": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}, false},
		"a conflict":               {apierrors.NewConflict(configMaps.GroupResource(), "it", nil), false},
	} {
		if got := isGone(tc.err, "it"); got != tc.want {
			t.Errorf("%s: gone %t, want %t", name, got, tc.want)
		}
	}
}
