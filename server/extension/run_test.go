// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/internal/options"
)

// TestServesWhileTheHostIsAway starts a server whose host does not answer: it lives, is not ready, and lets nobody in.
func TestServesWhileTheHostIsAway(t *testing.T) {
	t.Parallel()
	away := closedAddress(t)
	o := NewOptions()
	o.Serving = options.NewServing("", net.IPv4(127, 0, 0, 1), 0)
	o.Host.Config = &rest.Config{Host: "https://" + away, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	listener, err := o.Serving.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o.Serving.Listener = listener
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	server := New(completed, startBackend(t))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()

	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, //nolint:gosec // a self-signed certificate of the server under test
		Timeout:   10 * time.Second,
	}
	defer client.CloseIdleConnections()
	get := func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+listener.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	deadline := time.Now().Add(time.Minute)
	for code, body := get("/livez"); code != http.StatusOK; code, body = get("/livez") {
		if time.Now().After(deadline) {
			t.Fatalf("/livez is still %d, want 200: %s", code, body)
		}
	}
	if code, body := get("/readyz"); code != http.StatusInternalServerError || !strings.Contains(body, "[-]host-authentication") {
		t.Errorf("/readyz is %d, want 500 because of host-authentication: %s", code, body)
	}
	for _, path := range []string{"/version", "/apis", "/apis/features.k8s.io/v1alpha1/features", "/debug/pprof/", "/metrics"} {
		if code, body := get(path); code != http.StatusUnauthorized {
			t.Errorf("%s is %d for nobody, want 401: %s", path, code, body)
		}
	}
	select {
	case <-server.Ready():
		t.Error("ready without a host")
	default:
	}

	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("server ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("server did not stop")
	}
}

func startBackend(t *testing.T) *etcd.Backend {
	t.Helper()
	completed, err := etcd.NewOptions().Complete(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	backend, err := completed.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Stop)
	return backend
}

// closedAddress returns an address at which nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
