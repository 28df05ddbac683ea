// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// guard holds what the writes of one request come with: for each key the request may write, what the write depends on and
// what is written together with it.
type guard struct {
	mu     sync.Mutex
	writes map[string]guardedWrite
	// verdict is what features said about the object that is being prepared. Requests that prepare objects have one each.
	verdict verdict
	// anew has features be read from the store, because what the process remembers would not be found out to be out of date, or
	// has been already.
	anew bool
	// dry is a request that writes nothing.
	dry bool
}

// guardedWrite is what one attempt at writing a key comes with.
type guardedWrite struct {
	pins      []pin
	companion *companionWrite
	// waits says that the object has finalizers, for which a deletion has to wait.
	waits bool
}

// pin says that key had this mod revision when a rule read it; 0 says that it was absent.
type pin struct {
	key      string
	revision int64
}

// companionWrite says what a key shall hold once the own key has been written. It goes when the own key is deleted. Without
// a value it stays as it is while the own key stays.
type companionWrite struct {
	key   string
	value *string
}

type guardKey struct{}

func withGuard(ctx context.Context) context.Context {
	return context.WithValue(ctx, guardKey{}, &guard{writes: map[string]guardedWrite{}})
}

func guardFrom(ctx context.Context) *guard {
	g, _ := ctx.Value(guardKey{}).(*guard)
	return g
}

// begin forgets what an earlier attempt at writing own came with. The companion may be nil.
func (g *guard) begin(own string, companion *companionWrite) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes[own] = guardedWrite{companion: companion}
}

func (g *guard) add(own string, p pin) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.writes[own]
	w.pins = append(w.pins, p)
	g.writes[own] = w
}

// wait has the deletion of own begin anew if it would not wait for finalizers.
func (g *guard) wait(own string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.writes[own]
	w.waits = true
	g.writes[own] = w
}

// conclude keeps the verdict on the object that has been prepared.
func (g *guard) conclude(v verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.verdict = v
}

func (g *guard) concluded() verdict {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.verdict
}

func (g *guard) readAnew() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.anew = true
}

func (g *guard) readsAnew() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.anew
}

// IsDryRun tells a rule that nothing will be written.
func IsDryRun(ctx context.Context) bool {
	g := guardFrom(ctx)
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.dry
}

func (g *guard) runDry() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.anew, g.dry = true, true
}

// of returns what a write of own comes with. A nil guard has nothing.
func (g *guard) of(own string) guardedWrite {
	if g == nil {
		return guardedWrite{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.writes[own]
	w.pins = slices.Clone(w.pins)
	return w
}

// pinBrokenError reports that a key a rule relied on changed before the write; nothing was written.
type pinBrokenError struct {
	own, other string
}

func (e *pinBrokenError) Error() string {
	return fmt.Sprintf("writing %s: %s changed since the rules were checked", e.own, e.other)
}
