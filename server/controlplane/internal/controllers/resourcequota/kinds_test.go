// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcediscovery"
)

func TestNamesOfWhatIsCounted(t *testing.T) {
	t.Parallel()
	for name, want := range map[corev1.ResourceName]string{
		"count/widgets.example.com":                "widgets.example.com",
		"count/leases.coordination.k8s.io":         "leases.coordination.k8s.io",
		"count/secrets":                            "secrets",
		"secrets":                                  "secrets",
		"configmaps":                               "configmaps",
		"resourcequotas":                           "resourcequotas",
		"count/events":                             "",
		"count/events.events.k8s.io":               "",
		"count/tokenreviews.authentication.k8s.io": "",
		"pods":                "",
		"cpu":                 "",
		"requests.memory":     "",
		"example.com/devices": "",
	} {
		got, ok := kindOf(name)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%s counts %q, %t; want %q", name, got, ok, want)
		}
	}
}

func TestKindsAreAskedForSeldom(t *testing.T) {
	t.Parallel()
	now, asked := time.Unix(0, 0), 0
	var there *resourcediscovery.Kind
	var away error
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	known := newKinds(func(context.Context, schema.GroupResource) (*resourcediscovery.Kind, error) {
		asked++
		return there, away
	}, func() time.Time { return now })
	expect := func(step string, wantAsked int, wantWait time.Duration, wantErr bool) {
		t.Helper()
		_, wait, err := known.resolve(t.Context(), widgets)
		if asked != wantAsked || wait != wantWait || (err != nil) != wantErr {
			t.Errorf("%s: asked %d times, wait %s, error %v; want %d, %s, %t", step, asked, wait, err, wantAsked, wantWait, wantErr)
		}
	}
	away = errors.New("away")
	expect("the server is away", 1, 0, true)
	away = nil
	expect("it is not there", 2, firstAsk, false)
	expect("at once again", 2, firstAsk, false)
	now = now.Add(firstAsk)
	expect("later", 3, 2*firstAsk, false)
	for range 20 {
		now = now.Add(lastAsk)
		_, _, _ = known.resolve(t.Context(), widgets)
	}
	expect("much later", 23, lastAsk, false)
	known.defined(widgets)
	expect("it was defined, and is not served yet", 24, firstAsk, false)
	known.defined(widgets)
	there = &resourcediscovery.Kind{Namespaced: true}
	expect("it cannot be created", 25, firstAsk, false)
}

func TestKindsAreWatchedAsLongAsTheyAreCounted(t *testing.T) {
	t.Parallel()
	began, ended := make(chan string, 10), make(chan string, 10)
	f := newFollowing(func(ctx context.Context, _ schema.GroupResource, resource schema.GroupVersionResource) {
		began <- resource.String()
		<-ctx.Done()
		ended <- resource.String()
	})
	ctx, cancel := context.WithCancel(t.Context())
	next := func(from chan string, want schema.GroupVersionResource) {
		t.Helper()
		select {
		case got := <-from:
			if got != want.String() {
				t.Errorf("%s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing happened to the watch of %s", want)
		}
	}
	one := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	other := schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}
	kind := one.GroupResource()
	wants := func(resource schema.GroupVersionResource) map[schema.GroupResource]schema.GroupVersionResource {
		return map[schema.GroupResource]schema.GroupVersionResource{kind: resource}
	}

	f.follow(ctx, "ns/a", wants(one))
	next(began, one)
	f.follow(ctx, "ns/a", wants(one)) // nothing has changed
	f.follow(ctx, "ns/b", wants(one))
	f.follow(ctx, "ns/a", nil)
	if got := f.concerned(kind); len(got) != 1 || got[0] != "ns/b" {
		t.Errorf("the kind concerns %v", got)
	}
	f.follow(ctx, "ns/a", wants(one))
	f.follow(ctx, "ns/a", wants(other)) // the version changed
	next(ended, one)
	next(began, other)
	if got := f.concerned(kind); len(got) != 2 {
		t.Errorf("in the other version, the kind concerns %v", got)
	}
	f.follow(ctx, "ns/a", nil)
	f.follow(ctx, "ns/b", nil)
	next(ended, other)
	if got := f.concerned(kind); len(got) != 0 {
		t.Errorf("nobody counts the kind, and it concerns %v", got)
	}
	f.follow(ctx, "ns/a", wants(one))
	next(began, one)
	cancel()
	f.wait()
	next(ended, one)
	if len(began)+len(ended) > 0 {
		t.Errorf("%d more watches began, and %d ended", len(began), len(ended))
	}
}

// TestKindsThatCanBeCounted has a server list kinds that quotas may name.
func TestKindsThatCanBeCounted(t *testing.T) {
	t.Parallel()
	all := metav1.Verbs{"get", "list", "watch", "create", "delete"}
	resources := map[string]metav1.APIResource{
		"widgets": {Namespaced: true, Verbs: all}, "clusterwidgets": {Verbs: all}, "readonly": {Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch", "delete"}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/example.com":
			_ = json.NewEncoder(w).Encode(metav1.APIGroup{Name: "example.com", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "example.com/v1", Version: "v1"}}})
		default:
			list := metav1.APIResourceList{GroupVersion: "example.com/v1"}
			for name, resource := range resources {
				resource.Name = name
				list.APIResources = append(list.APIResources, resource)
			}
			_ = json.NewEncoder(w).Encode(list)
		}
	}))
	t.Cleanup(server.Close)
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	known := newKinds(resourcediscovery.NewKinds(client.RESTClient()).Find, time.Now)
	for name, want := range map[string]bool{"widgets": true, "clusterwidgets": false, "readonly": false, "nothing": false} {
		kind := schema.GroupResource{Group: "example.com", Resource: name}
		for range 2 {
			resource, wait, err := known.resolve(t.Context(), kind)
			if err != nil || (resource == kind.WithVersion("v1")) != want || (wait == 0) != want {
				t.Errorf("%s: got %s, wait %s, %v; want it found: %t", name, resource, wait, err, want)
			}
		}
	}
	// A definition that changes does not take away what is known, and a kind that was gone is asked for again.
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	delete(resources, "widgets")
	known.defined(widgets)
	if _, wait, err := known.resolve(t.Context(), widgets); err != nil || wait > 0 {
		t.Errorf("after its definition has changed: wait %s, %v", wait, err)
	}
	known.forget(widgets)
	if _, wait, err := known.resolve(t.Context(), widgets); err != nil || wait != firstAsk {
		t.Errorf("after it was forgotten: wait %s, %v", wait, err)
	}
}
