// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// server answers discovery, and counts how often it is asked.
type server struct{ asked atomic.Int32 }

func (s *server) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var out any
	switch request.URL.Path {
	case "/api":
		s.asked.Add(1)
		out = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		away := metav1.GroupVersionForDiscovery{GroupVersion: "away.example.com/v1", Version: "v1"}
		out = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}, Groups: []metav1.APIGroup{{
			Name: "away.example.com", Versions: []metav1.GroupVersionForDiscovery{away}, PreferredVersion: away,
		}}}
	case "/api/v1":
		resource := func(name string, verbs ...string) metav1.APIResource {
			return metav1.APIResource{Name: name, Kind: name, Namespaced: name != "cluster", Verbs: verbs}
		}
		out = metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			resource("all", "list", "delete", "deletecollection"), resource("single", "list", "delete"), resource("collected", "list", "deletecollection"),
			resource("unlisted", "delete", "deletecollection"), resource("kept", "list"), resource("cluster", "list", "delete"), resource("all/status", "list", "delete"),
		}}
	case "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/apiregistration.k8s.io/v1/apiservices":
		http.NotFound(w, request)
		return
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(out)
}

func TestKindsAreAskedForOnceForAllAndAnewWhenItMatters(t *testing.T) {
	t.Parallel()
	s := &server{}
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: listener.URL})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := metadata.NewForConfig(&rest.Config{Host: listener.URL})
	if err != nil {
		t.Fatal(err)
	}
	k := newKinds(client, objects)
	first, err := k.since(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, kind := range first.kinds {
		got[kind.name()] = kind.collection
	}
	if diff := cmp.Diff(map[string]bool{"all": true, "single": false, "collected": true}, got); diff != "" {
		t.Errorf("kinds, and whether they are deleted at once (-want,+got):\n%s", diff)
	}
	if failed, ok := discovery.GroupDiscoveryFailedErrorGroups(first.failure); !ok || len(failed) != 1 {
		t.Errorf("the server that is away: got %v", first.failure)
	}
	second, err := k.since(t.Context(), first.asked)
	if err != nil || second.asked != first.asked && second.asked.Sub(first.asked) < fresh {
		t.Errorf("asked at %s and %s: %v", first.asked, second.asked, err)
	}
	before := s.asked.Load()
	now := time.Now()
	if third, err := k.since(t.Context(), now); err != nil || third.asked.Before(now) || s.asked.Load() == before {
		t.Errorf("an answer from %s, want one that is not from before %s: %v", third.asked, now, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.since(ended, time.Now()); err == nil {
		t.Error("an answer for somebody who has gone")
	}
}

func TestASuccessorIsNotEmptied(t *testing.T) {
	t.Parallel()
	meant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", DeletionTimestamp: &metav1.Time{Time: time.Now()}}}
	change := func(f func(*corev1.Namespace)) []*corev1.Namespace {
		ns := meant.DeepCopy()
		f(ns)
		return []*corev1.Namespace{ns}
	}
	for name, tc := range map[string]struct {
		known []*corev1.Namespace
		want  bool
	}{
		"still there":              {[]*corev1.Namespace{meant}, true},
		"gone":                     {nil, false},
		"another one":              {change(func(ns *corev1.Namespace) { ns.UID = types.UID("2") }), false},
		"not deleted":              {change(func(ns *corev1.Namespace) { ns.DeletionTimestamp = nil }), false},
		"another one, deleted too": {change(func(ns *corev1.Namespace) { ns.UID = "3" }), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
			for _, ns := range tc.known {
				if err := indexer.Add(ns); err != nil {
					t.Fatal(err)
				}
			}
			c := &Controller{lister: listers.NewNamespaceLister(indexer)}
			if err := c.still(meant); (err == nil) != tc.want {
				t.Errorf("got %v", err)
			}
			if tc.want {
				return
			}
			// It has no client, and would panic if it asked for anything.
			if found := c.empty(t.Context(), meant, answer{kinds: []kind{widgets()}}); len(found.failures) != 1 {
				t.Errorf("found %+v", found)
			}
		})
	}
}
