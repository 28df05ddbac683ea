// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas sends requests to those replicas of a server that say that they are ready, as a Service does with its Endpoints.
package replicas

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/robustness/faults"
)

// ProbeInterval is how often replicas are asked. A shutdown delay is to be a multiple of it.
const ProbeInterval = 50 * time.Millisecond

// Pool is replicas of one server.
type Pool struct {
	mu    sync.Mutex
	ready map[string]bool
	order []string
	next  int
}

// New returns a pool of replicas, which nobody has asked yet.
func New(addresses ...string) *Pool { return &Pool{ready: map[string]bool{}, order: addresses} }

// Run asks the replicas again and again until the context ends.
func (p *Pool) Run(ctx context.Context, tlsConfig *tls.Config) {
	// Probes of a kubelet have a connection each, too.
	via := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
	var running sync.WaitGroup
	defer running.Wait()
	for _, address := range p.order {
		running.Go(func() {
			ticker := time.NewTicker(ProbeInterval)
			defer ticker.Stop()
			for ctx.Err() == nil {
				ready := Ask(ctx, via, "https://"+address+"/readyz") == nil
				p.mu.Lock()
				p.ready[address] = ready
				p.mu.Unlock()
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
			}
		})
	}
}

// Ask returns nil if an address answers with status 200.
func Ask(ctx context.Context, via *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := via.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// Wants returns an error unless requests are sent to a replica.
func (p *Pool) Wants(address string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready[address] {
		return errors.New(address + " is not ready")
	}
	return nil
}

// Choose returns the ready ones in turn.
func (p *Pool) Choose() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.order {
		p.next = (p.next + 1) % len(p.order)
		if address := p.order[p.next]; p.ready[address] {
			return address, nil
		}
	}
	return "", errors.New("no replica is ready")
}

// Balance leads connections to ready replicas until the test ends. A connection stays with its replica.
func (p *Pool) Balance(t *testing.T) *faults.Proxy {
	t.Helper()
	return faults.NewBalancer(t, func() (net.Conn, error) {
		address, err := p.Choose()
		if err != nil {
			return nil, err
		}
		return net.Dial("tcp", address)
	})
}
