// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// call is when a request was sent and its answer came.
type call struct{ sent, answered time.Time }

// tap notes when a candidate writes its Lease.
type tap struct {
	mu sync.Mutex
	// released is the last write that left the Lease without holder, written the last of the others.
	released, written call
}

func (t *tap) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodPut || !strings.Contains(request.URL.Path, "/leases/") {
			return next.RoundTrip(request)
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(body))
		into := &t.written
		if bytes.Contains(body, []byte(`"holderIdentity":""`)) {
			into = &t.released
		}
		now := call{sent: time.Now()}
		response, err := next.RoundTrip(request)
		now.answered = time.Now()
		if err == nil && response.StatusCode == http.StatusOK {
			t.mu.Lock()
			defer t.mu.Unlock()
			*into = now
		}
		return response, err
	})
}

func (t *tap) calls() (released, written call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.released, t.written
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
