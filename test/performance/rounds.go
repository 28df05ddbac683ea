// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/kube-annex/annex/test/performance/measure"
)

// bench is one run.
type bench struct {
	settings settings
	only     *regexp.Regexp
	servers  *servers
	peers    []*peer
	results  *results
}

func (b *bench) run(ctx context.Context) error {
	if err := b.preload(ctx); err != nil {
		return err
	}
	if b.settings.warming > 0 {
		say("warming up")
		if err := b.round(ctx, 0, b.settings.warming, func(string, *peer, sample) {}); err != nil {
			return err
		}
	}
	for round := range b.settings.rounds {
		say("round %d of %d", round+1, b.settings.rounds)
		if err := b.round(ctx, round, b.settings.lasting, b.results.add); err != nil {
			return err
		}
		if err := b.watchRound(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

// preloadSteps is in how many parts objects are stored from the beginning, each of which shows what an object costs in memory.
const preloadSteps = 5

// preload stores what is there from the beginning.
func (b *bench) preload(ctx context.Context) error {
	for _, p := range b.stores() {
		say("storing %d objects in %s", b.settings.stored, p.name)
		before, err := p.heap(ctx)
		if err != nil {
			return err
		}
		size := b.settings.stored / preloadSteps
		for step := range preloadSteps {
			load := measure.Load{Clients: b.settings.clients, Least: size, Most: size}
			_, err := load.Run(ctx, func(ctx context.Context, client, i int) error {
				return p.operations[opPreload](ctx, client, step*size+i)
			})
			if err != nil {
				return fmt.Errorf("store objects in %s: %w", p.name, err)
			}
			after, err := p.heap(ctx)
			if err != nil {
				return err
			}
			if p.admin != nil && b.only.MatchString(workHeap) {
				b.results.add(workHeap, p, sample{Operations: size, Heap: (after - before) / float64(size)})
			}
			before = after
		}
	}
	return nil
}

// stores returns one peer of each store.
func (b *bench) stores() (out []*peer) {
	for _, p := range b.peers {
		if !slices.ContainsFunc(out, func(other *peer) bool { return other.store == p.store }) {
			out = append(out, p)
		}
	}
	return out
}

// inTurns returns the peers in an order in which each goes first at some time.
func (b *bench) inTurns(round int) []*peer {
	first := round % len(b.peers)
	return append(slices.Clone(b.peers[first:]), b.peers[:first]...)
}

// round does all works once on all peers.
func (b *bench) round(ctx context.Context, round int, lasting time.Duration, add func(string, *peer, sample)) error {
	for i, w := range works {
		if !b.only.MatchString(w.name) {
			continue
		}
		for _, p := range b.inTurns(round + i) {
			if p.operations[w.operation] == nil {
				continue
			}
			measured, err := w.run(ctx, p, b.settings, lasting)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			add(w.name, p, measured)
		}
	}
	for _, p := range b.peers {
		if err := p.clear(ctx, b.settings); err != nil {
			return fmt.Errorf("clear %s: %w", p.name, err)
		}
	}
	return nil
}
