// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// measurement is one work on one peer in one round.
type measurement struct {
	// Rate is in operations a second.
	Rate float64 `json:"rate"`
	P50  float64 `json:"p50Milliseconds"`
	P99  float64 `json:"p99Milliseconds"`
}

// work is one row of the table.
type work struct {
	name     string
	protobuf bool
	run      func(ctx context.Context, t *target, s settings) (measurement, error)
}

var works = []work{
	{name: "create", run: func(ctx context.Context, t *target, s settings) (measurement, error) {
		return spread(s.clients, s.writes, func(i int) error {
			return t.request(ctx, "POST", "", jsonType, t.object(t.own(i), valueOf("created")))
		})
	}},
	{name: "get", run: func(ctx context.Context, t *target, s settings) (measurement, error) {
		return spread(s.clients, s.reads, func(int) error {
			return t.request(ctx, "GET", "/"+stored(rand.IntN(s.stored)), "", nil)
		})
	}},
	{name: "merge patch", run: func(ctx context.Context, t *target, s settings) (measurement, error) {
		return spread(s.clients, s.writes, func(i int) error {
			return t.request(ctx, "PATCH", "/"+t.own(i), mergeType, t.change(valueOf("patched")))
		})
	}},
	{name: "server-side apply", run: func(ctx context.Context, t *target, s settings) (measurement, error) {
		return spread(s.clients, s.writes, func(i int) error {
			return t.request(ctx, "PATCH", "/"+t.own(i)+"?fieldManager=bench&force=true", applyType, t.object(t.own(i), valueOf("applied")))
		})
	}},
	{name: "delete", run: func(ctx context.Context, t *target, s settings) (measurement, error) {
		return spread(s.clients, s.writes, func(i int) error { return t.request(ctx, "DELETE", "/"+t.own(i), "", nil) })
	}},
	{name: "list, JSON", run: func(ctx context.Context, t *target, s settings) (measurement, error) {
		return spread(1, s.lists, func(int) error { return t.request(ctx, "GET", "", "", nil) })
	}},
	{name: "list, protobuf", protobuf: true, run: func(ctx context.Context, t *target, s settings) (measurement, error) {
		return spread(1, s.lists, func(int) error { return t.requestAs(ctx, "GET", "", "", protobufType, nil) })
	}},
	{name: "list, pages of 500", run: func(ctx context.Context, t *target, s settings) (measurement, error) {
		return spread(1, s.lists, func(int) error { return pages(ctx, t) })
	}},
	{name: "watch, write to event", run: watchLag},
}

func stored(i int) string { return fmt.Sprintf("stored-%d.example.com", i) }

func preload(ctx context.Context, t *target, s settings) error {
	_, err := spread(s.clients, s.stored, func(i int) error {
		return t.request(ctx, "POST", "", jsonType, t.object(stored(i), valueOf("stored")))
	})
	return err
}

// spread runs operations 0 to n-1 on concurrent clients and measures each.
func spread(clients, n int, operation func(i int) error) (measurement, error) {
	took := make([]time.Duration, n)
	errs := make([]error, clients)
	var next atomic.Int64
	var working sync.WaitGroup
	began := time.Now()
	for client := range clients {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				start := time.Now()
				if err := operation(i); err != nil {
					errs[client] = err
					return
				}
				took[i] = time.Since(start)
			}
		})
	}
	working.Wait()
	return measure(took, time.Since(began)), errors.Join(errs...)
}

func measure(took []time.Duration, total time.Duration) measurement {
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[min(int(share*float64(len(took))), len(took)-1)].Microseconds()) / 1000
	}
	return measurement{Rate: float64(len(took)) / total.Seconds(), P50: at(0.5), P99: at(0.99)}
}

// pages reads a whole list 500 objects at a time.
func pages(ctx context.Context, t *target) error {
	token := ""
	for {
		response, err := t.open(ctx, "GET", "?limit=500&continue="+url.QueryEscape(token), "", jsonType, nil)
		if err != nil {
			return err
		}
		var page bytes.Buffer
		_, err = page.ReadFrom(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return err
		}
		if token = continueToken(page.Bytes()); token == "" {
			return nil
		}
	}
}

// continueToken finds the token in the list's metadata, which comes before the items of some peers and after those of others.
func continueToken(page []byte) string {
	_, after, found := bytes.Cut(page, []byte(`"continue":"`))
	if !found {
		return ""
	}
	token, _, _ := bytes.Cut(after, []byte(`"`))
	return string(token)
}

// watchLag changes one object again and again and measures, for each watcher, the time from sending the change to its event.
func watchLag(ctx context.Context, t *target, s settings) (measurement, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var took []time.Duration
	var sent atomic.Int64
	seen := make(chan error, s.watchers)
	for range s.watchers {
		response, err := t.open(ctx, "GET", "?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D"+stored(0), "", jsonType, nil)
		if err != nil {
			return measurement{}, err
		}
		go func() {
			defer response.Body.Close()
			lines := bufio.NewReaderSize(response.Body, 64<<10)
			// The first event is the object as it was.
			for event := range s.changes + 1 {
				_, err := lines.ReadBytes('\n')
				now := time.Now()
				if err != nil {
					seen <- err
					return
				}
				if event > 0 {
					mu.Lock()
					took = append(took, now.Sub(time.Unix(0, sent.Load())))
					mu.Unlock()
				}
				seen <- nil
			}
		}()
	}
	// all waits until every watcher has had the next event, so that each belongs to the change sent last.
	all := func() error {
		for range s.watchers {
			select {
			case err := <-seen:
				if err != nil {
					return err
				}
			case <-time.After(untilThen):
				return errors.New("a watcher got no event")
			}
		}
		return nil
	}
	if err := all(); err != nil {
		return measurement{}, err
	}
	began := time.Now()
	for i := range s.changes {
		sent.Store(time.Now().UnixNano())
		if err := t.request(ctx, "PATCH", "/"+stored(0), mergeType, t.change(valueOf(fmt.Sprint(i, time.Now().UnixNano())))); err != nil {
			return measurement{}, err
		}
		if err := all(); err != nil {
			return measurement{}, err
		}
	}
	return measure(took, time.Since(began)), nil
}
