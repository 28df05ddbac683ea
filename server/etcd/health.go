// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
)

// healthAge is how long an answer is given again: health paths are open to everybody, and must not pass a flood on to etcd.
const healthAge = 250 * time.Millisecond

// recentHealth remembers the last answer. Its lock is held during a probe, so that there is one at a time.
type recentHealth struct {
	mu   sync.Mutex
	at   time.Time
	last error
}

// HealthCheck reads from etcd with quorum. It is meant for livez and readyz, and does not fail for a full store, which a
// restart would not empty.
func (b *Backend) HealthCheck() healthz.HealthChecker {
	return healthz.NamedCheck("etcd", func(*http.Request) error {
		h := &b.health
		h.mu.Lock()
		defer h.mu.Unlock()
		if time.Since(h.at) < healthAge {
			return h.last
		}
		// The answer is for others too, so it does not depend on one request's patience.
		h.last = probe(context.Background(), b.Client.Client, probeTimeout)
		if h.last != nil && b.ping != nil {
			// The client tries again by itself until time is up, and then does not say why.
			if err := b.ping(context.Background()); err != nil {
				h.last = err
			}
		}
		h.at = time.Now()
		if h.last != nil {
			h.last = fmt.Errorf("reading from etcd: %w", h.last)
		}
		return h.last
	})
}

// SpaceCheck fails while the embedded etcd is full of live data and takes no writes. It is meant for healthz alone. In livez a
// restart would follow, which does not help. In readyz the server would get no requests, and so not the deletes that do help.
func (b *Backend) SpaceCheck() healthz.HealthChecker {
	return healthz.NamedCheck("etcd-space", func(*http.Request) error {
		if reason := b.quotaAlarm.reason(); reason != "" {
			return errors.New(reason)
		}
		return nil
	})
}
