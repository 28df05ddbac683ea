// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/fencing"
)

// errTermOver is why a client of a term sends nothing any more.
var errTermOver = errors.New("the term is over")

// Term is one stretch of leadership of a group, as its runnables see it.
type Term struct {
	fence      fencing.Term
	base       *rest.Config
	markWrites bool
	metrics    groupMetrics
	clock      Clock
	// mux is where handlers go; it may be nil.
	mux Mux
	// labels carries the goroutine labels of the term, and nothing else.
	labels context.Context
	// lifetime ends when all runnables have returned; requests are cut off with it.
	lifetime context.Context
	end      context.CancelCauseFunc
	denials  denials
	// heldUntil is until when, by the clock's Elapsed, the Lease is surely held, less the time kept for stopping.
	heldUntil atomic.Int64

	mu     sync.Mutex
	closed bool
	checks map[string]func(*http.Request) error
	paths  []string
	onEnd  []func()
}

// Client returns the configuration of the term's client: its writes name the term, and nothing is sent once the term is over, also
// in a process that was paused past its Lease.
func (t *Term) Client() *rest.Config {
	config := rest.CopyConfig(t.base)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &fenced{term: t, next: next} })
	return config
}

// Fence returns what the term's writes are marked with.
func (t *Term) Fence() fencing.Term { return t.fence }

// AddHealthCheck makes a check part of the group's health until the term ends.
func (t *Term) AddHealthCheck(name string, check func(*http.Request) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.checks[name] = check
	}
}

// Handle serves a path of the process's mux until the term ends. It does nothing where the process has no mux.
func (t *Term) Handle(path string, handler http.Handler) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mux == nil || t.closed {
		return
	}
	t.paths = append(t.paths, path)
	t.mux.Handle(path, handler)
}

// OnEnd calls f after all runnables have returned and before the Lease is released, the last registered first, within the stop timeout.
func (t *Term) OnEnd(f func()) {
	t.mu.Lock()
	closed := t.closed
	if !closed {
		t.onEnd = append(t.onEnd, f)
	}
	t.mu.Unlock()
	if closed {
		f()
	}
}

// renewedAt moves on until when the Lease is held.
func (t *Term) renewedAt(started, usable time.Duration) { t.heldUntil.Store(int64(started + usable)) }

func (t *Term) remaining() time.Duration {
	return time.Duration(t.heldUntil.Load()) - t.clock.Elapsed()
}

// over tells why nothing may be sent any more.
func (t *Term) over() error {
	switch {
	case t.lifetime.Err() != nil:
		return fmt.Errorf("%w: %s, held by %s", errTermOver, t.fence.Lease, t.fence.Holder)
	case t.remaining() <= 0:
		return fmt.Errorf("%w: %s, held by %s, was not renewed in time", errTermOver, t.fence.Lease, t.fence.Holder)
	}
	return nil
}

// close takes back all that the term has put up. Its runnables have returned.
func (t *Term) close() {
	t.end(errTermOver)
	t.mu.Lock()
	onEnd, paths := t.onEnd, t.paths
	t.closed, t.onEnd, t.paths, t.checks = true, nil, nil, nil
	t.mu.Unlock()
	for _, path := range paths {
		t.mux.Unregister(path)
	}
	for _, f := range slices.Backward(onEnd) {
		f()
	}
}

// check returns the first failing check, with its name.
func (t *Term) check(request *http.Request) error {
	t.mu.Lock()
	checks := make(map[string]func(*http.Request) error, len(t.checks))
	for name, check := range t.checks {
		checks[name] = check
	}
	t.mu.Unlock()
	var errs []error
	for name, check := range checks {
		if err := check(request); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
