// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

const (
	claims      = "/apis/multicluster.k8s.io/v1alpha1/clusterclaims"
	userClients = 4
	// userPace is how often each of them sends a request, whether or not the one before was slow.
	userPace = 40 * time.Millisecond
)

// request is one of a user.
type request struct {
	due  time.Time
	took time.Duration
}

// users are clients that create, get and delete ClusterClaims at a steady pace. What a request took is counted from when it was due.
type users struct {
	stop    context.CancelFunc
	working sync.WaitGroup

	mu       sync.Mutex
	requests []request
	err      error
}

func startUsers(ctx context.Context, config *rest.Config) (*users, error) {
	url, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	u := &users{stop: stop}
	for i := range userClients {
		client, err := rest.HTTPClientFor(separate(config))
		if err != nil {
			stop()
			return nil, err
		}
		base := strings.TrimSuffix(url.String(), "/") + claims
		u.working.Go(func() {
			if err := u.work(ctx, client, base, i); ctx.Err() == nil {
				u.mu.Lock()
				u.err = err
				u.mu.Unlock()
			}
		})
	}
	return u, nil
}

// work returns when something fails, or the context ends.
func (u *users) work(ctx context.Context, client *http.Client, base string, i int) error {
	due := time.Now().Add(userPace * time.Duration(i) / userClients)
	for n := 0; ; n++ {
		name := fmt.Sprintf("user-%d-%d.example.com", i, n)
		body := fmt.Appendf(nil, `{"apiVersion":"multicluster.k8s.io/v1alpha1","kind":"ClusterClaim","metadata":{"name":%q},"spec":{"value":%q}}`, name, strings.Repeat(".", 700))
		for _, step := range []struct {
			method, url string
			body        []byte
		}{
			{http.MethodPost, base, body}, {http.MethodGet, base + "/" + name, nil}, {http.MethodGet, base + "/" + name, nil}, {http.MethodDelete, base + "/" + name, nil},
		} {
			if err := pause(ctx, time.Until(due)); err != nil {
				return err
			}
			if err := send(ctx, client, step.method, step.url, step.body); err != nil {
				return err
			}
			u.mu.Lock()
			u.requests = append(u.requests, request{due: due, took: time.Since(due)})
			u.mu.Unlock()
			due = due.Add(userPace)
		}
	}
}

func send(ctx context.Context, client *http.Client, method, url string, body []byte) error {
	return sendAs(ctx, client, method, url, "application/json", body)
}

func sendAs(ctx context.Context, client *http.Client, method, url, contentType string, body []byte) error {
	out, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	out.Header.Set("Content-Type", contentType)
	response, err := client.Do(out)
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %.300s", method, response.Status, answer)
	}
	return err
}

// between returns what requests took that were due in that time.
func (u *users) between(from, to time.Time) latencies {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out latencies
	for _, r := range u.requests {
		if r.due.Before(from) || !r.due.Before(to) {
			continue
		}
		out.all = append(out.all, r.took)
	}
	slices.Sort(out.all)
	return out
}

func (u *users) close() error {
	u.stop()
	u.working.Wait()
	return u.err
}

// quietly returns what users see while nothing else goes on.
func (s settings) quietly(ctx context.Context, u *users) (latencies, error) {
	began := time.Now()
	err := pause(ctx, s.quiet)
	return u.between(began, time.Now()), err
}

// latencies are in order.
type latencies struct{ all []time.Duration }

// at is the least that so large a part does not exceed, in milliseconds.
func (l latencies) at(part float64) float64 {
	if len(l.all) == 0 {
		return 0
	}
	return float64(l.all[min(len(l.all)-1, int(part*float64(len(l.all))))].Microseconds()) / 1000
}

// columns say what a String of latencies has.
const columns = "ms p50 / p95 / p99 / max (requests)"

// ratios are what was measured at one time, to the times before and after.
type ratios struct{ p50, p95, p99 []float64 }

func (r *ratios) add(during, before, after latencies) {
	ratio := func(part float64) float64 { return during.at(part) / ((before.at(part) + after.at(part)) / 2) }
	r.p50, r.p95, r.p99 = append(r.p50, ratio(0.5)), append(r.p95, ratio(0.95)), append(r.p99, ratio(0.99))
}

// String shows the medians.
func (r *ratios) String() string {
	median := func(values []float64) float64 {
		ordered := slices.Sorted(slices.Values(values))
		return ordered[len(ordered)/2]
	}
	if len(r.p50) == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.2f / %.2f / %.2f", median(r.p50), median(r.p95), median(r.p99))
}

func (l latencies) String() string {
	return fmt.Sprintf("%.1f / %.1f / %.1f / %.1f (%d)", l.at(0.5), l.at(0.95), l.at(0.99), l.at(1), len(l.all))
}
