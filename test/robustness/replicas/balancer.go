// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"io"
	"net"
	"sync"
	"testing"
)

// balancer passes each connection on to a ready replica, and leaves it there.
type balancer struct {
	pool     *Pool
	listener net.Listener
	working  sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	connections []net.Conn
}

// Balance listens until the test ends, and returns where.
func (p *Pool) Balance(t *testing.T) net.Addr {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{pool: p, listener: listener}
	b.working.Go(b.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		b.close()
		b.working.Wait()
	})
	return listener.Addr()
}

func (b *balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		address, err := b.pool.Choose()
		if err != nil {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", address)
		if err != nil {
			_ = client.Close()
			continue
		}
		b.join(client, server)
	}
}

// join copies what comes from one side to the other, until either ends.
func (b *balancer) join(one, other net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.connections = append(b.connections, one, other)
	if b.closed {
		_ = one.Close()
		_ = other.Close()
	}
	for _, way := range [][2]net.Conn{{one, other}, {other, one}} {
		b.working.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = one.Close()
			_ = other.Close()
		})
	}
}

func (b *balancer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for _, connection := range b.connections {
		_ = connection.Close()
	}
}
