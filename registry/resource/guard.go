// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"
	"sync"
)

// guard holds what the writes of one request depend on: for each key the request may write, the other keys and the
// revisions they must still have. It is a map by own key because the workers of a delete-collection share a context.
type guard struct {
	mu   sync.Mutex
	pins map[string][]pin
}

// pin says that key had this mod revision when a rule read it; 0 says that it was absent.
type pin struct {
	key      string
	revision int64
}

type guardKey struct{}

func withGuard(ctx context.Context) context.Context {
	return context.WithValue(ctx, guardKey{}, &guard{pins: map[string][]pin{}})
}

func guardFrom(ctx context.Context) *guard {
	g, _ := ctx.Value(guardKey{}).(*guard)
	return g
}

// reset forgets what an earlier attempt at writing own depended on.
func (g *guard) reset(own string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.pins, own)
}

func (g *guard) add(own string, p pin) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pins[own] = append(g.pins[own], p)
}

// pinsOf returns what a write of own depends on. A nil guard has no pins.
func (g *guard) pinsOf(own string) []pin {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.pins[own]
}

// pinBrokenError reports that a key a rule relied on changed before the write; nothing was written.
type pinBrokenError struct {
	own, other string
}

func (e *pinBrokenError) Error() string {
	return fmt.Sprintf("writing %s: %s changed since the rules were checked", e.own, e.other)
}
