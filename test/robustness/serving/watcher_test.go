// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// connect returns a client with a connection of its own.
func connect(config *rest.Config) (*http.Client, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true}}, nil
}

// watcher watches a collection and goes on where it was when its watch ends, as an informer does. It keeps as little as it can: there
// are thousands of them.
type watcher struct {
	via  *http.Client
	url  string
	from string
	// watching is whether it has a watch at the moment.
	watching atomic.Bool

	mu sync.Mutex
	// seen are the versions of what it was told, in order.
	seen []string
	// refused is how often it was told to come again, and watches how many it has had.
	refused, watches int
	failed           error
}

// run watches until the context ends.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := w.watch(ctx)
		w.watching.Store(false)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// watch has one watch, and returns how soon to ask for another.
func (w *watcher) watch(ctx context.Context) time.Duration {
	const soon = 50 * time.Millisecond
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"?watch=1&resourceVersion="+w.from, nil)
	if err != nil {
		w.fail(err)
		return soon
	}
	response, err := w.via.Do(request)
	if err != nil {
		return soon
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.mu.Lock()
		w.refused++
		w.mu.Unlock()
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return max(soon, time.Duration(seconds)*time.Second)
	default:
		w.fail(fmt.Errorf("watch %s: %s", w.url, response.Status))
		return soon
	}
	w.mu.Lock()
	w.watches++
	w.mu.Unlock()
	w.watching.Store(true)
	lines := bufio.NewReaderSize(response.Body, 1<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return 0
		}
		w.take(line)
	}
}

// take notes an event.
func (w *watcher) take(line []byte) {
	var event struct {
		Type   string
		Object metav1.PartialObjectMetadata
	}
	if err := json.Unmarshal(line, &event); err != nil || event.Type == "ERROR" {
		w.fail(fmt.Errorf("the watch of %s tells %s (%w)", w.url, line, err))
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from = event.Object.ResourceVersion
	w.seen = append(w.seen, w.from)
}

func (w *watcher) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
}

// check compares what it has seen with what there was.
func (w *watcher) check(want []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	for i, version := range w.seen {
		if i >= len(want) || want[i] != version {
			return fmt.Errorf("event %d is of version %s, which is not what was written then: %v", i, version, want)
		}
	}
	if len(w.seen) < len(want) {
		return fmt.Errorf("%d of %d events", len(w.seen), len(want))
	}
	return nil
}
