// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kube-annex/annex/test/performance/measure"
)

// watchedPeers are those whose watchers are compared.
var watchedPeers = map[string]bool{
	peerConfigMap: true, peerCRD: true, peerAnnexDirect: true, peerAnnexAggregated: true, peerUpDirect: true, peerUpThrough: true,
}

const (
	// connecting is how many watchers connect at the same time.
	connecting = 32
	// lastEvent is how long after the last change its event may come.
	lastEvent = 30 * time.Second
)

// watchRound measures watchers, first by themselves and then beside one who never reads.
func (b *bench) watchRound(ctx context.Context, round int) error {
	alone, beside := b.only.MatchString(workWatch), b.only.MatchString(workWatchBeside)
	if !alone && !beside {
		return nil
	}
	for _, p := range b.inTurns(round) {
		if !watchedPeers[p.name] {
			continue
		}
		if err := b.watch(ctx, p, alone, beside); err != nil {
			return fmt.Errorf("watch %s: %w", p.name, err)
		}
	}
	return nil
}

func (b *bench) watch(ctx context.Context, p *peer, alone, beside bool) error {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	a := &audience{peer: p, size: b.settings.watchers, reading: &reading}
	if err := a.gather(ctx); err != nil {
		return err
	}
	changes := int(b.settings.watching.Seconds() * float64(b.settings.perSecond))
	measureOnce := func(name string) error {
		measured, err := measureCost(p, func() (measure.Done, error) { return a.show(ctx, changes, b.settings.perSecond) })
		if err == nil {
			b.results.add(name, p, measured)
		}
		return err
	}
	if alone {
		if err := measureOnce(workWatch); err != nil {
			return err
		}
	}
	if !beside {
		return nil
	}
	stuck, err := p.neverRead(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stuck.Close() }()
	return measureOnce(workWatchBeside)
}

// audience are watchers of everything that a peer stores.
type audience struct {
	peer    *peer
	size    int
	reading *sync.WaitGroup
	seen    atomic.Int64
	failed  atomic.Pointer[error]
	mu      sync.Mutex
	took    []time.Duration
}

// gather connects all watchers.
func (a *audience) gather(ctx context.Context) error {
	revision, err := a.change(ctx, 0)
	if err != nil {
		return err
	}
	load := measure.Load{Clients: min(connecting, a.size), Least: a.size, Most: a.size}
	_, err = load.Run(ctx, func(context.Context, int, int) error { return a.join(ctx, revision) })
	return err
}

// join connects one watcher, who reads until the context ends.
func (a *audience) join(ctx context.Context, revision string) error {
	c, err := newClient(a.peer.config)
	if err != nil {
		return err
	}
	response, err := c.open(ctx, request{method: http.MethodGet, path: a.peer.kind.path + "?watch=1&resourceVersion=" + revision})
	if err != nil {
		return err
	}
	a.reading.Go(func() {
		defer c.close()
		a.read(ctx, response)
	})
	return nil
}

// read notes how long ago each event's change was sent.
func (a *audience) read(ctx context.Context, response *http.Response) {
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewReader(response.Body)
	var line []byte
	for {
		line = line[:0]
		for {
			part, err := lines.ReadSlice('\n')
			line = append(line, part...)
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				if ctx.Err() == nil {
					a.failed.Store(&err)
				}
				return
			}
		}
		now := time.Now().UnixNano()
		sent, err := sentAt(line)
		if err != nil {
			a.failed.Store(&err)
			return
		}
		a.mu.Lock()
		a.took = append(a.took, time.Duration(now-sent))
		a.mu.Unlock()
		a.seen.Add(1)
	}
}

// The value of a change begins with when it was sent.
const (
	sentBegins = "sent-"
	sentEnds   = "-"
)

func sentAt(event []byte) (int64, error) {
	_, after, _ := bytes.Cut(event, []byte(sentBegins))
	text, _, found := bytes.Cut(after, []byte(sentEnds))
	if !found {
		return 0, fmt.Errorf("an event that nobody has sent: %.300s", event)
	}
	return strconv.ParseInt(string(text), 10, 64)
}

// change changes an object and returns its new revision.
func (a *audience) change(ctx context.Context, i int) (string, error) {
	sent := sentBegins + strconv.FormatInt(time.Now().UnixNano(), 10) + sentEnds
	answer, err := a.peer.admin.do(ctx, request{
		method: http.MethodPatch, path: a.peer.kind.path + "/" + storedName(i), contentType: mergeType, body: a.peer.kind.change(value(sent)),
	})
	if err != nil {
		return "", err
	}
	return revisionOf(answer)
}

// show makes so many changes a second and waits until everyone has seen all. What is measured begins when a change is sent, so it has the
// time of the write in it.
func (a *audience) show(ctx context.Context, changes, perSecond int) (measure.Done, error) {
	a.seen.Store(0)
	a.mu.Lock()
	a.took = make([]time.Duration, 0, changes*a.size)
	a.mu.Unlock()
	began := time.Now()
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for i := range changes {
		select {
		case <-ctx.Done():
			return measure.Done{}, ctx.Err()
		case <-ticker.C:
		}
		if _, err := a.change(ctx, i); err != nil {
			return measure.Done{}, err
		}
	}
	for deadline := time.Now().Add(lastEvent); a.seen.Load() < int64(changes*a.size); {
		if err := a.failed.Load(); err != nil {
			return measure.Done{}, fmt.Errorf("a watch has ended: %w", *err)
		}
		if time.Now().After(deadline) {
			return measure.Done{}, fmt.Errorf("%d of %d events have not come within %s", int64(changes*a.size)-a.seen.Load(), changes*a.size, lastEvent)
		}
		select {
		case <-ctx.Done():
			return measure.Done{}, ctx.Err()
		case <-ticker.C:
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return measure.Done{Operations: len(a.took), Wall: time.Since(began), Took: a.took}, nil
}
