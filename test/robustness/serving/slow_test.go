// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/robustness/traffic"
)

// TestWatchersThatNeverRead has some watchers that take the first byte and no more, while large objects are written. What they cost the
// server is bounded, the other watchers and all clients notice nothing, and when they go, nothing of them stays.
func TestWatchersThatNeverRead(t *testing.T) {
	t.Parallel()
	for name, objects := range sides() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const padding = 16 << 10
			seed, _ := seeded(t)
			lazy, writes := quickOr(10, 100), quickOr(150, 5000)
			u := startUp(t, "")
			before, heap := u.goroutines(), u.heap()
			leave := watchWithoutReading(t, u.config, objects, lazy)
			l := traffic.Start(t, traffic.Options{Seed: seed, Objects: objects, Configs: []*rest.Config{u.config}, Clients: 6, Watchers: 3, Padding: padding, Pause: time.Millisecond})
			for range writes / 150 {
				l.WaitFor(t, 150)
			}
			during := u.goroutines()
			t.Logf("%d watchers that do not read, %d writes of %d KiB: %d goroutines (%d before), %d MiB on the heap (%d before)",
				lazy, writes, padding>>10, during, before, u.heap(), heap)
			if failed := l.Failed(); len(failed) > 0 {
				t.Errorf("%d requests failed, the first: %s", len(failed), failed[0])
			}
			l.Verdict(t)
			// Each of them holds what fits into its queue, its stream and its connection; beyond that it is on the server's list no more.
			if now, most := u.heap(), heap+40+lazy*4; now > most {
				t.Errorf("%d MiB on the heap while %d watchers do not read, want at most %d", now, lazy, most)
			}
			leave()
			// Connections of the aggregator that have nothing to do any more stay for 90 s.
			u.waitGoroutines(2*patience, before)
		})
	}
}

// watchWithoutReading begins watches, each on a connection of its own, and returns what ends them.
func watchWithoutReading(t *testing.T, config *rest.Config, objects traffic.Objects, count int) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	path := collections[1]
	if objects.Resource.Group == "" {
		path = collections[0]
	}
	var clients []*http.Client
	for range count {
		via, err := connect(config)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, via)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path+"?watch=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := via.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusOK {
			content, _ := io.ReadAll(response.Body)
			t.Fatalf("watching: %s: %s", response.Status, content)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
	}
	return func() {
		cancel()
		for _, via := range clients {
			via.CloseIdleConnections()
		}
	}
}
