// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/fencing"
)

// Ways in which a proxy treats requests.
const (
	delayed   = "delay"     // they arrive late, even if their client has gone
	cut       = "cut"       // connections break
	swallowed = "blackhole" // nothing comes back, until all breaks at the end of the fault
	refused   = "refuse"    // they are answered with an error and not passed on
	lost      = "lose"      // they are passed on, and the answer is lost
)

// Trouble is what a proxy does to requests for a while.
type Trouble struct {
	Kind string
	// Share of the requests that are concerned, and to which of them it is limited; empty means all.
	Share float64
	Path  string
	// Delay is the longest for delayed requests; Code is the answer to refused ones.
	Delay time.Duration
	Code  int
	// over ends the trouble.
	over context.Context
}

// Proxy is the way of one worker to the server. It signs in for the worker.
type Proxy struct {
	// URL is where the worker finds it.
	URL string
	// DropTerms takes the header with the term off all requests.
	DropTerms bool

	server *httptest.Server
	mu     sync.Mutex
	target *url.URL
	via    http.RoundTripper
	now    *Trouble
	end    context.CancelFunc
	open   map[*http.Request]context.CancelFunc
}

// NewProxy returns a proxy that has no server yet.
func NewProxy() *Proxy {
	p := &Proxy{open: map[*http.Request]context.CancelFunc{}}
	p.server = httptest.NewServer(p)
	p.URL = p.server.URL
	return p
}

// Close ends all requests.
func (p *Proxy) Close() {
	p.Heal()
	p.breakAll()
	p.server.Close()
}

// Use has requests passed on to another server.
func (p *Proxy) Use(config *rest.Config) error {
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	via, err := rest.TransportFor(config)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target, p.via = target, via
	return nil
}

// Make begins a trouble, in place of the present one.
func (p *Proxy) Make(t Trouble) {
	p.Heal()
	p.mu.Lock()
	t.over, p.end = context.WithCancel(context.Background())
	p.now = &t
	p.mu.Unlock()
	if t.Kind == cut {
		p.breakAll()
	}
}

// Heal ends the present trouble.
func (p *Proxy) Heal() {
	p.mu.Lock()
	healed := p.now
	if p.end != nil {
		p.end()
	}
	p.now, p.end = nil, nil
	p.mu.Unlock()
	if healed != nil && healed.Kind == swallowed {
		p.breakAll()
	}
}

func (p *Proxy) breakAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, cancel := range p.open {
		cancel()
	}
}

// trouble returns what is to happen to a request at this moment, nil for nothing.
func (p *Proxy) trouble(r *http.Request) *Trouble {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now == nil || !strings.Contains(r.URL.Path, p.now.Path) || rand.Float64() >= p.now.Share {
		return nil
	}
	return p.now
}

// ServeHTTP passes a request on, or what is left of it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// A request that was sent may arrive although its client does not wait any longer.
	sent, abort := context.WithCancel(context.WithoutCancel(r.Context()))
	defer abort()
	client, gone := context.WithCancel(r.Context())
	defer gone()
	p.mu.Lock()
	p.open[r] = gone
	target, via := p.target, p.via
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, r)
	}()

	// The body is read before anything can break it.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		broken()
	}
	t := p.trouble(r)
	if t != nil {
		switch t.Kind {
		case delayed:
			wait(sent, rand.N(t.Delay))
		case cut:
			broken()
		case swallowed:
			<-t.over.Done()
			broken()
		case refused:
			refuse(w, t.Code)
			return
		}
	}
	if r.Method == http.MethodGet {
		defer context.AfterFunc(client, abort)()
	}
	request := r.Clone(sent)
	request.URL.Scheme, request.URL.Host, request.RequestURI, request.Host = target.Scheme, target.Host, "", ""
	request.Body, request.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
	request.Header.Del("Accept-Encoding")
	if p.DropTerms {
		request.Header.Del(fencing.Header)
	}
	response, err := via.RoundTrip(request)
	if err != nil || t != nil && t.Kind == lost {
		if err == nil {
			_ = response.Body.Close()
		}
		broken()
	}
	defer func() { _ = response.Body.Close() }()
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	p.stream(client, w, response.Body)
}

// stream copies the answer as it comes, and holds it back while nothing gets through.
func (p *Proxy) stream(client context.Context, w http.ResponseWriter, from io.Reader) {
	flusher, _ := w.(http.Flusher)
	buffer := make([]byte, 32<<10)
	flusher.Flush()
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		now := p.now
		p.mu.Unlock()
		if now != nil && now.Kind == swallowed {
			<-now.over.Done()
			broken()
		}
		if client.Err() != nil {
			broken()
		}
		if _, writeErr := w.Write(buffer[:n]); writeErr != nil {
			broken()
		}
		flusher.Flush()
		switch err {
		case nil:
		case io.EOF:
			return
		default:
			broken()
		}
	}
}

// broken ends the connection without an answer; the HTTP server knows this panic.
func broken() { panic(http.ErrAbortHandler) } //nolint:forbidigo // there is no other way to leave a request without an answer

func refuse(w http.ResponseWriter, code int) {
	reasons := map[int]string{
		http.StatusForbidden: "Forbidden", http.StatusConflict: "Conflict",
		http.StatusInternalServerError: "InternalError", http.StatusTooManyRequests: "TooManyRequests",
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"a fault","code":%d}`, reasons[code], code)
}

// wait returns whether all of the time has passed.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
