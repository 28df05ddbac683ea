// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"bytes"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// network is the way of one replica to etcd.
type network struct {
	listener net.Listener
	target   string
	working  sync.WaitGroup
	// late is how many writes of the gated field have been on their way to etcd while it was held up.
	late atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]bool
	// open is closed while what is sent arrives at once.
	open chan struct{}
	// cut connections are closed, and new ones too.
	cut bool
}

// newNetwork leads to an etcd at a socket until the test ends.
func newNetwork(t *testing.T, endpoint string) *network {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{listener: listener, target: strings.TrimPrefix(endpoint, "unix://"), conns: map[net.Conn]bool{}, open: make(chan struct{})}
	close(n.open)
	n.working.Go(n.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		n.release()
		n.mu.Lock()
		n.cut = true
		n.closeAll()
		n.mu.Unlock()
		n.working.Wait()
	})
	return n
}

func (n *network) endpoint() string { return "http://" + n.listener.Addr().String() }

// hold keeps what is sent, in both directions, until it is released; nobody is told.
func (n *network) hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open = make(chan struct{})
}

// release lets everything that was held arrive.
func (n *network) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.open:
	default:
		close(n.open)
	}
}

// disconnect breaks all connections until reconnect.
func (n *network) disconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = true
	n.closeAll()
}

func (n *network) reconnect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut = false
}

func (n *network) closeAll() {
	for conn := range n.conns {
		_ = conn.Close()
	}
	clear(n.conns)
}

func (n *network) accept() {
	for {
		from, err := n.listener.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("unix", n.target)
		n.mu.Lock()
		if err != nil || n.cut {
			_ = from.Close()
			if err == nil {
				_ = to.Close()
			}
			n.mu.Unlock()
			continue
		}
		n.conns[from], n.conns[to] = true, true
		n.mu.Unlock()
		n.working.Go(func() { n.pass(from, to, &n.late) })
		n.working.Go(func() { n.pass(to, from, &atomic.Int64{}) })
	}
}

func (n *network) pass(from, to net.Conn, late *atomic.Int64) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		count, err := from.Read(buffer)
		n.mu.Lock()
		open := n.open
		n.mu.Unlock()
		select {
		case <-open:
		default:
			late.Add(int64(bytes.Count(buffer[:count], []byte(paint))))
			<-open
		}
		if count > 0 {
			if _, writeErr := to.Write(buffer[:count]); writeErr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
