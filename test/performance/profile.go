// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// profiled is how long a profile takes, in seconds.
const profiled = 10

// profilesOf are what a server is asked for while it works. It has noted where it waited for locks and channels only with -contention.
var profilesOf = map[string]string{"cpu": "profile", "allocs": "allocs", "block": "block"}

// profile does all works once more on peers of ours, for as long as their servers are profiled, if that is asked for.
func (b *bench) profile(ctx context.Context) error {
	if b.settings.profiles == "" {
		return nil
	}
	if err := os.MkdirAll(b.settings.profiles, 0o755); err != nil {
		return err
	}
	for _, p := range b.stores() {
		if p.store != storeOfAnnex && p.store != storeOfUp {
			continue
		}
		if err := b.take(ctx, p, "heap?gc=1", filepath.Join(b.settings.profiles, "stored."+p.slug()+".heap")); err != nil {
			return fmt.Errorf("profile the heap of %s: %w", p.name, err)
		}
	}
	for _, w := range works {
		for _, p := range b.peers {
			if p.store != storeOfAnnex && p.store != storeOfUp || !b.only.MatchString(w.name) || p.operations[w.operation] == nil {
				continue
			}
			say("profiling %s at %s", p.name, w.name)
			if err := b.profileWork(ctx, p, w); err != nil {
				return fmt.Errorf("profile %s at %s: %w", p.name, w.name, err)
			}
		}
	}
	return nil
}

func (b *bench) profileWork(ctx context.Context, p *peer, w work) error {
	taken := make(chan error, len(profilesOf))
	for name, endpoint := range profilesOf {
		file := filepath.Join(b.settings.profiles, strings.ReplaceAll(strings.ReplaceAll(w.name, ",", ""), " ", "-")+"."+p.slug()+"."+name)
		go func() { taken <- b.take(ctx, p, fmt.Sprintf("%s?seconds=%d", endpoint, profiled), file) }()
	}
	_, err := w.run(ctx, p, b.settings, profiled*time.Second)
	errs := []error{err}
	for range profilesOf {
		errs = append(errs, <-taken)
	}
	return errors.Join(append(errs, p.clear(ctx, b.settings))...)
}

// take has the peer's server, not one on the way to it, profile itself.
func (b *bench) take(ctx context.Context, p *peer, endpoint, file string) error {
	direct := p
	for _, other := range b.peers {
		if other.store == p.store && (other.name == peerAnnexDirect || other.name == peerUpDirect) {
			direct = other
		}
	}
	c, err := newClient(direct.config)
	if err != nil {
		return err
	}
	defer c.close()
	content, err := c.do(ctx, request{method: http.MethodGet, path: "/debug/pprof/" + endpoint, accept: "application/octet-stream"})
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
