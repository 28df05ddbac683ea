// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework/poll"
)

// fault is what happens to a request.
type fault struct {
	// delay is waited for before anything else.
	delay time.Duration
	// status is answered instead of passing the request on; 0 for none.
	status int
	// cut breaks the connection, and lose passes the request on and then breaks it.
	cut, lose bool
	// hole lets nothing through, in either direction, until the rule changes.
	hole bool
}

// faults is the transport of an elector, in which requests fail by a rule.
type faults struct {
	next     http.RoundTripper
	requests atomic.Int64

	mu      sync.Mutex
	rule    func(*http.Request) fault
	changed chan struct{}
}

// through makes the requests of an elector pass the faults.
func through(f *faults) func(*plan) {
	return func(p *plan) {
		p.options.Client = rest.CopyConfig(p.options.Client)
		f.next, p.options.Client.Transport = p.options.Client.Transport, f
	}
}

func newFaults() *faults { return &faults{changed: make(chan struct{})} }

// newProxy serves the control plane that all tests share through faults, for clients that need a connection.
func newProxy(t *testing.T) (*faults, *httptest.Server) {
	t.Helper()
	transport, err := rest.TransportFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(admin.Host)
	if err != nil {
		t.Fatal(err)
	}
	f := newFaults()
	f.next = transport
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: f, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, //nolint:forbidigo // breaks the connection
	})
	t.Cleanup(func() {
		f.set(nil)
		server.CloseClientConnections()
		server.Close()
	})
	return f, server
}

// set applies another rule to requests, also to those under way; nil is for none.
func (f *faults) set(rule func(*http.Request) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule = rule
	close(f.changed)
	f.changed = make(chan struct{})
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

func (f *faults) judge(r *http.Request) (fault, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rule == nil {
		return fault{}, f.changed
	}
	return f.rule(r), f.changed
}

// pass waits while the request is in a hole, and returns the fault that the request has then.
func (f *faults) pass(r *http.Request) (fault, error) {
	for {
		found, changed := f.judge(r)
		switch {
		case r.Context().Err() != nil:
			return found, r.Context().Err()
		case found.cut:
			return found, io.EOF
		case !found.hole:
			return found, nil
		}
		select {
		case <-changed:
		case <-r.Context().Done():
		}
	}
}

// RoundTrip implements http.RoundTripper.
func (f *faults) RoundTrip(r *http.Request) (*http.Response, error) {
	f.requests.Add(1)
	found, err := f.pass(r)
	if err != nil {
		return nil, err
	}
	if poll.Pause(r.Context(), found.delay); r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	if found.status != 0 {
		return refusal(r, found.status), nil
	}
	response, err := f.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if found.lose {
		_ = response.Body.Close()
		return nil, io.EOF
	}
	response.Body = &faultyBody{ReadCloser: response.Body, faults: f, request: r}
	return response, nil
}

// faultyBody is the body of a response, which may be a watch.
type faultyBody struct {
	io.ReadCloser
	faults  *faults
	request *http.Request
}

func (b *faultyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if _, passErr := b.faults.pass(b.request); passErr != nil {
		return 0, passErr
	}
	return n, err
}

// refusal is a Status as an API server sends it.
func refusal(r *http.Request, code int) *http.Response {
	reasons := map[int]string{
		http.StatusForbidden: "Forbidden", http.StatusConflict: "Conflict", http.StatusInternalServerError: "InternalError",
		http.StatusTooManyRequests: "TooManyRequests",
	}
	response := respond(r, code, io.NopCloser(strings.NewReader(fmt.Sprintf(
		`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"the proxy says so","code":%d}`, reasons[code], code))))
	if code == http.StatusTooManyRequests {
		response.Header.Set("Retry-After", "1")
	}
	return response
}
