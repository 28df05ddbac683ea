// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/test/framework"
)

// TestRemoteServers has tests that share one control plane. Another one is behind it.
func TestRemoteServers(t *testing.T) {
	t.Parallel()
	w := startWorld(t)
	// They wait more than they work, so more of them run at once than there are processors.
	var running sync.WaitGroup
	defer running.Wait()
	for name, test := range map[string]func(*testing.T, *world){
		"availability":              testAvailability,
		"another control plane":     testSecond,
		"discovery of an old one":   testLegacyDiscovery,
		"colliding documents":       testCollidingDocuments,
		"documents that are broken": testBrokenDocuments,
		"v2 alone":                  testOnlyV2,
		"a local one":               testLocal,
	} {
		running.Go(func() { t.Run(name, func(t *testing.T) { test(t, w) }) })
	}
}

// testAvailability has each reason for which a server is not available, and lets it pass.
func testAvailability(t *testing.T, w *world) {
	ca, other := authority(t), authority(t)
	serves := func(does func(*backend, http.ResponseWriter, *http.Request)) func(*testing.T, *backend) func() {
		return func(_ *testing.T, b *backend) func() {
			b.set(does)
			return func() { b.set((*backend).healthy) }
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	for name, tc := range map[string]struct {
		// makes makes the server be as the name says, and returns how that is undone.
		makes func(*testing.T, *backend) (undo func())
		want  string
	}{
		"unknown": {
			makes: func(t *testing.T, b *backend) func() {
				t.Helper()
				w.services.set(b.name, "")
				return func() { w.services.set(b.name, b.Listener.Addr().String()) }
			},
			want: "resolve service: there is no service backends/unknown with port 443",
		},
		"away": {
			makes: func(t *testing.T, b *backend) func() {
				t.Helper()
				w.services.set(b.name, nobody(t))
				return func() { w.services.set(b.name, b.Listener.Addr().String()) }
			},
			want: "connection refused",
		},
		"not-trusted": {
			makes: func(t *testing.T, b *backend) func() {
				t.Helper()
				stranger := startBackend(t, &services{}, b.name, other)
				w.services.set(b.name, stranger.Listener.Addr().String())
				return func() { w.services.set(b.name, b.Listener.Addr().String()) }
			},
			want: "certificate signed by unknown authority",
		},
		"failing":     {makes: serves((*backend).fail), want: "bad status from https://"},
		"redirecting": {makes: serves((*backend).redirect), want: ": 302"},
		"hanging":     {makes: serves((*backend).hang), want: "context deadline exceeded"},
		"trickling":   {makes: serves((*backend).trickle), want: "context deadline exceeded"},
		"flooding":    {makes: serves((*backend).flood), want: "endless response from https://"},
		"hanging-up":  {makes: serves((*backend).hangUp), want: "failing or missing response from https://"},
	} {
		running.Go(func() {
			t.Run(name, func(t *testing.T) {
				b := startBackend(t, w.services, name, ca)
				undo := tc.makes(t, b)
				service := w.register(t, b.group(), apiregistrationv1.ServiceReference{Namespace: namespace, Name: b.name}, ca.CertPEM())
				w.wantAvailable(t, service, apiregistrationv1.ConditionFalse, tc.want)
				for _, path := range []string{"/apis/" + b.group() + "/v1", "/apis/" + b.group() + "/v1/things"} {
					if got := get(t, w.Config, path); got.status != http.StatusServiceUnavailable {
						t.Errorf("%s: got %d %s, want 503", path, got.status, got.body)
					}
				}
				undo()
				if took := w.wantAvailable(t, service, apiregistrationv1.ConditionTrue, "all checks passed"); took > 5*time.Second+fast {
					t.Errorf("it was found to be back after %s", took)
				}
				w.wantThings(t, b.group(), "Current")
			})
		})
	}
}

// nobody returns an address on which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// testLocal has an APIService of a group that nobody serves: it is answered here, and always available.
func testLocal(t *testing.T, w *world) {
	const name = "v1.nobody.example.com"
	_, err := w.apiServices(t).Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       apiregistrationv1.APIServiceSpec{Group: "nobody.example.com", Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 10},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.wantAvailable(t, name, apiregistrationv1.ConditionTrue, "Local APIServices are always available")
	if got := get(t, w.Config, "/apis/nobody.example.com/v1/things"); got.status != http.StatusNotFound {
		t.Errorf("got %d %s, want 404", got.status, got.body)
	}
	if got := get(t, w.Config, "/apis/nobody.example.com"); got.status != http.StatusOK {
		t.Errorf("its group: got %d %s", got.status, got.body)
	}
	if err := w.apiServices(t).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantGone(t, w, "/apis/nobody.example.com")
}

// testSecond uses another control plane through the first one, while it changes, goes away and comes back.
func testSecond(t *testing.T, w *world) {
	s := startSecond(t, w)
	w.wantAvailable(t, "v1."+secondGroup, apiregistrationv1.ConditionTrue, "all checks passed")
	got := w.wantThings(t, secondGroup, "Current")
	if got.Resource != "gadgets" || got.ResponseKind.Kind != "Gadget" || len(got.ShortNames) != 1 || len(got.Categories) != 1 {
		t.Errorf("in discovery: %+v", got)
	}
	gadgets := schema.GroupVersionResource{Group: secondGroup, Version: "v1", Resource: "gadgets"}
	_, err := w.Dynamic.Resource(gadgets).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": secondGroup + "/v1", "kind": "Gadget", "metadata": map[string]any{"name": "a"}, "size": int64(1),
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Dynamic.Resource(gadgets).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("what was created through the first one: %v", err)
	}
	wantMergedDocuments(t, w)
	wantChangedDocument(t, w, s)

	s.Stop(t)
	w.touch(t, "v1."+secondGroup)
	w.wantAvailable(t, "v1."+secondGroup, apiregistrationv1.ConditionFalse, "connection refused")
	// Clients learn what there was, and that it may not be so anymore.
	w.wantThings(t, secondGroup, "Stale")
	s.Resume(t)
	s.known(t, w)
	w.wantAvailable(t, "v1."+secondGroup, apiregistrationv1.ConditionTrue, "all checks passed")
	w.wantThings(t, secondGroup, "Current")
	if _, err := w.Dynamic.Resource(gadgets).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Errorf("once it is back: %v", err)
	}

	if err := w.apiServices(t).Delete(t.Context(), "v1."+secondGroup, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantGone(t, w, "/apis/"+secondGroup)
	framework.Eventually(t, patience, func() error {
		for _, path := range []string{"/openapi/v2", "/openapi/v3"} {
			if err := lacks(get(t, w.Config, path).body, secondGroup); err != nil {
				return err
			}
		}
		return nil
	})
}

// testLegacyDiscovery has a server from before aggregated discovery.
func testLegacyDiscovery(t *testing.T, w *world) {
	ca := authority(t)
	b := w.start(t, "old", ca)
	w.wantAvailable(t, "v1."+b.group(), apiregistrationv1.ConditionTrue, "all checks passed")
	if got := w.wantThings(t, b.group(), "Current"); got.ShortNames[0] != "th" || got.Categories[0] != "all" {
		t.Errorf("in discovery: %+v", got)
	}
	b.set((*backend).fail)
	w.touch(t, "v1."+b.group())
	w.wantThings(t, b.group(), "Stale")
	b.set((*backend).healthy)
	w.touch(t, "v1."+b.group())
	w.wantThings(t, b.group(), "Current")
}
