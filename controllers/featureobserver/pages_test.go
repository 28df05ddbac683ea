// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pages is a server with a page a path. It wants the token "secret".
type pages struct {
	url, caFile string

	mu     sync.Mutex
	served map[string]string
	asked  map[string]int
}

func newPages(t *testing.T) *pages {
	t.Helper()
	p := &pages{served: map[string]string{}, asked: map[string]int{}, caFile: filepath.Join(t.TempDir(), "ca.crt")}
	server := httptest.NewTLSServer(p)
	t.Cleanup(server.Close)
	p.url = server.URL
	if err := os.WriteFile(p.caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *pages) set(path, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.served[path] = text
}

// config is how the server is reached.
func (p *pages) config() *rest.Config {
	return &rest.Config{Host: p.url, BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAFile: p.caFile}}
}

// count is how often a page was asked for.
func (p *pages) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[r.URL.Path]++
	if r.Header.Get("Authorization") != "Bearer secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	text, found := p.served[r.URL.Path]
	if !found {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	if to, moved := strings.CutPrefix(text, "moved to "); moved {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	if strings.HasPrefix(text, "{") {
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = fmt.Fprint(w, text)
}

func TestPageIsRead(t *testing.T) {
	t.Parallel()
	const one = `kubernetes_feature_enabled{name="One",stage=""} 1` + "\n"
	server := newPages(t)
	server.set("/metrics", one)
	server.set("/moved/metrics", "moved to "+server.url+"/secrets")
	server.set("/secrets", one)
	for name, tc := range map[string]struct{ path, token, want string }{
		"there":    {path: "/metrics", token: "secret"},
		"no right": {path: "/metrics", token: "other", want: "401 Unauthorized; grant the right to get it, or name an identity that has it with --observe-kubeconfig"},
		"missing":  {path: "/other", token: "secret", want: "404 Not Found: there is no such page"},
		// The token would go wherever a component points to.
		"moved": {path: "/moved/metrics", token: "secret", want: "302 Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, err := clientFor(&rest.Config{BearerToken: tc.token}, server.caFile, false)
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = readPage(t.Context(), client, server.url+tc.path)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	t.Cleanup(func() {
		if server.count("/secrets") > 0 {
			t.Error("a redirect was followed")
		}
	})
}
