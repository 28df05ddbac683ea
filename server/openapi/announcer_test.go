// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/openapi"
)

// apiServices takes patches of APIServices, after it has refused some.
type apiServices struct {
	refuse  chan int // statuses
	patches chan string
}

func (a *apiServices) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	body, _ := io.ReadAll(r.Body)
	var patch struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(body, &patch); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := time.Parse(time.RFC3339Nano, patch.Metadata.Annotations[openapi.ChangedAnnotation]); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case status := <-a.refuse:
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": map[int]string{404: "NotFound", 409: "Conflict"}[status]})
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "APIService", "apiVersion": "apiregistration.k8s.io/v1"})
	}
	a.patches <- r.Method + " " + r.URL.Path
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	host := &apiServices{refuse: make(chan int, 1), patches: make(chan string, 100)}
	listener := httptest.NewServer(host)
	defer listener.Close()
	s := start(t, allBut())
	announcer, err := openapi.NewAnnouncer(&rest.Config{Host: listener.URL, QPS: -1}, s.publisher)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	const want = "PATCH /apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.node.k8s.io"
	wantPatch := func(why string) {
		t.Helper()
		select {
		case got := <-host.patches:
			if got != want {
				t.Errorf("%s: got %s, want %s", why, got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: nothing was patched", why)
		}
	}
	s.publisher.Publish(allBut(deadlines))
	running.Go(func() { announcer.Run(ctx) })
	wantPatch("a change before it ran")
	s.publisher.Publish(allBut(deadlines))
	s.publisher.Publish(allBut())
	wantPatch("a change")
	host.refuse <- http.StatusConflict
	s.publisher.Publish(allBut(deadlines))
	wantPatch("a change that the host refuses")
	wantPatch("the next attempt")
	host.refuse <- http.StatusNotFound
	s.publisher.Publish(allBut())
	wantPatch("a change of what is not registered")
	cancel()
	running.Wait()
	s.publisher.Publish(allBut(deadlines))
	if n := len(host.patches); n != 0 {
		t.Errorf("%d more patches", n)
	}
}
