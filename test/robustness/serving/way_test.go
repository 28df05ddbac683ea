// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// way is what lies between clients and a server: it passes connections on, breaks them, or lets them go silent.
type way struct {
	listener net.Listener
	target   string
	working  sync.WaitGroup

	mu     sync.Mutex
	links  map[*link]bool
	closed bool
}

// link is one connection.
type link struct {
	client, server net.Conn
	// silent links swallow what is sent, and the end of either side, too.
	silent atomic.Bool
}

// newWay leads to a server until the test ends.
func newWay(t *testing.T, target string) *way {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{listener: listener, target: target, links: map[*link]bool{}}
	w.working.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		w.mu.Lock()
		w.closed = true
		w.mu.Unlock()
		w.cut()
		w.working.Wait()
	})
	return w
}

func (w *way) address() string { return w.listener.Addr().String() }

func (w *way) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.working.Go(func() {
			server, err := net.Dial("tcp", w.target)
			if err != nil {
				_ = client.Close()
				return
			}
			l := &link{client: client, server: server}
			w.mu.Lock()
			if w.closed {
				w.mu.Unlock()
				l.close()
				return
			}
			w.links[l] = true
			w.mu.Unlock()
			w.working.Go(func() { l.pass(client, server) })
			l.pass(server, client)
		})
	}
}

// pass copies what comes from one side to the other.
func (l *link) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		if l.silent.Load() {
			if err != nil {
				return
			}
			continue
		}
		if count > 0 {
			if _, writeErr := to.Write(buffer[:count]); writeErr != nil {
				err = writeErr
			}
		}
		if err != nil {
			l.close()
			return
		}
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// each does something to all links that there are now and forgets those that it says are over. It returns how many there were.
func (w *way) each(do func(l *link) (over bool)) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := len(w.links)
	for l := range w.links {
		if do(l) {
			delete(w.links, l)
		}
	}
	return count
}

// cut breaks all connections.
func (w *way) cut() int {
	return w.each(func(l *link) bool { l.close(); return true })
}

// silence lets the connections go silent that there are now. Neither side is told; new ones work.
func (w *way) silence() int {
	return w.each(func(l *link) bool { l.silent.Store(true); return false })
}
