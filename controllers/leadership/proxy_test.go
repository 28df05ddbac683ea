// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// fault is what the proxy does to a request.
type fault struct {
	// status is answered instead of passing the request on; 0 for none.
	status int
	// delay is waited for before the request is passed on.
	delay time.Duration
	// cut breaks the connection, and lose passes the request on and then breaks it.
	cut, lose bool
	// hole lets nothing through, in either direction, until the rules change.
	hole bool
}

// proxy stands between an elector and the server.
type proxy struct {
	server   *httptest.Server
	upstream http.RoundTripper
	target   string

	mu      sync.Mutex
	rule    func(*http.Request) fault
	changed chan struct{}
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	upstream, err := rest.TransportFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{upstream: upstream, target: strings.TrimPrefix(admin.Host, "https://"), changed: make(chan struct{})}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.set(nil)
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

func (p *proxy) config() *rest.Config { return &rest.Config{Host: p.server.URL, QPS: -1} }

// set has requests, also those under way, judged by other rules; nil for none.
func (p *proxy) set(rule func(*http.Request) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
	close(p.changed)
	p.changed = make(chan struct{})
}

// always is the same fault for every request.
func always(f fault) func(*http.Request) fault { return func(*http.Request) fault { return f } }

// of is a fault for requests with one of the methods, to a path that contains a part.
func of(methods, path string, f fault) func(*http.Request) fault {
	return func(r *http.Request) fault {
		if strings.Contains(methods, r.Method) && strings.Contains(r.URL.Path, path) {
			return f
		}
		return fault{}
	}
}

func (p *proxy) judge(r *http.Request) (fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rule == nil {
		return fault{}, p.changed
	}
	return p.rule(r), p.changed
}

// pass waits while the request is in a hole, and returns what else is to be done to it. False says that the client has gone.
func (p *proxy) pass(r *http.Request) (fault, bool) {
	for {
		f, changed := p.judge(r)
		if !f.hole {
			return f, r.Context().Err() == nil
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return f, false
		}
	}
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := p.pass(r)
	if !ok || f.cut {
		hangUp(w)
		return
	}
	if f.status != 0 {
		answer(w, f.status)
		return
	}
	if f.delay > 0 {
		timer := time.NewTimer(f.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	request := r.Clone(r.Context())
	request.URL.Scheme, request.URL.Host, request.RequestURI = "https", p.target, ""
	response, err := p.upstream.RoundTrip(request)
	if err != nil || f.lose {
		hangUp(w)
		return
	}
	defer func() { _ = response.Body.Close() }()
	p.answer(w, r, response)
}

// answer passes the answer on, piece by piece, since it may be a watch.
func (p *proxy) answer(w http.ResponseWriter, r *http.Request, response *http.Response) {
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	piece := make([]byte, 32<<10)
	for {
		n, err := response.Body.Read(piece)
		if f, ok := p.pass(r); !ok || f.cut {
			hangUp(w)
			return
		}
		if _, writeErr := w.Write(piece[:n]); writeErr != nil || err != nil {
			return
		}
		_ = flush.Flush()
	}
}

// hangUp breaks the connection without an answer.
func hangUp(w http.ResponseWriter) {
	if connection, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_ = connection.Close()
	}
}

// answer is a Status as an API server sends it.
func answer(w http.ResponseWriter, code int) {
	reasons := map[int]string{
		http.StatusForbidden: "Forbidden", http.StatusConflict: "Conflict", http.StatusInternalServerError: "InternalError",
		http.StatusTooManyRequests: "TooManyRequests",
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"the proxy says so","code":%d}`, reasons[code], code))
}
