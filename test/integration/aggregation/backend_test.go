// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregation

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// namespace is where the services of all backends are.
const namespace = "backends"

// backend is a server of the group <name>.example.com that does what the test wants. It is known as the service <name>.
type backend struct {
	*httptest.Server
	name string
	does atomic.Pointer[doing]
}

// doing is what a backend does with requests, until it does something else.
type doing struct {
	serve func(b *backend, w http.ResponseWriter, r *http.Request)
	ended chan struct{}
}

// startBackend runs one with a certificate of the authority, which is healthy at first.
func startBackend(t *testing.T, services *services, name string, authority *pki.Authority) *backend {
	t.Helper()
	b := &backend{name: name}
	b.set((*backend).healthy)
	pair, err := authority.Serving("backend-"+name, name+"."+namespace+".svc")
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	b.Server = httptest.NewUnstartedServer(b)
	b.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	b.EnableHTTP2 = true
	b.StartTLS()
	t.Cleanup(func() {
		b.set((*backend).healthy)
		b.CloseClientConnections()
		b.Close()
	})
	services.set(name, b.Listener.Addr().String())
	return b
}

func (b *backend) group() string { return b.name + ".example.com" }

// set makes the backend do something else from now on, also with requests that it has got already.
func (b *backend) set(serve func(*backend, http.ResponseWriter, *http.Request)) {
	if before := b.does.Swap(&doing{serve: serve, ended: make(chan struct{})}); before != nil {
		close(before.ended)
	}
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.does.Load().serve(b, w, r) }

// healthy is a server from before aggregated discovery, without OpenAPI.
func (b *backend) healthy(w http.ResponseWriter, r *http.Request) {
	if strings.TrimSuffix(r.URL.Path, "/") != "/apis/"+b.group()+"/v1" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/v1","resources":[
		{"name":"things","singularName":"thing","kind":"Thing","namespaced":true,"verbs":["get","list"],"shortNames":["th"],"categories":["all"]}]}`, b.group())
}

// hang takes requests and never answers.
func (b *backend) hang(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-b.does.Load().ended:
	case <-r.Context().Done():
	}
}

// trickle answers with one byte a second.
func (b *backend) trickle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	ended, tick := b.does.Load().ended, time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if _, err := w.Write([]byte(" ")); err != nil {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-ended:
			return
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// flood answers with a document that does not end.
func (b *backend) flood(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	ended, chunk := b.does.Load().ended, []byte(strings.Repeat(" ", 1<<16))
	for r.Context().Err() == nil {
		select {
		case <-ended:
			return
		default:
		}
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// hangUp closes the connection.
func (b *backend) hangUp(http.ResponseWriter, *http.Request) {
	panic(http.ErrAbortHandler) //nolint:forbidigo // net/http's way to end a connection
}

// fail has an error of its own.
func (b *backend) fail(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "broken", http.StatusInternalServerError)
}

// redirect sends everybody elsewhere.
func (b *backend) redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "https://elsewhere.example.com/", http.StatusFound)
}

// authority returns a new certificate authority.
func authority(t *testing.T) *pki.Authority {
	t.Helper()
	directory, err := pki.Open(filepath.Join(t.TempDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	made, err := directory.Authority("serving", "serving")
	if err != nil {
		t.Fatal(err)
	}
	return made
}
