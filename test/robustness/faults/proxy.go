// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults stands between clients and servers, and disturbs their connections.
package faults

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy passes connections on.
type Proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	working  sync.WaitGroup
	// OnHeld receives what clients send while the proxy holds it. It may be nil, and is set before the first connection.
	OnHeld func([]byte)

	mu    sync.Mutex
	links map[*link]bool
	// open is closed while what is sent arrives at once.
	open chan struct{}
	// cut refuses connections.
	cut bool
}

// link is one connection.
type link struct {
	client, server net.Conn
	// silent links swallow what either side sends, and its end.
	silent atomic.Bool
}

// NewProxy leads to a server at an address until the test ends.
func NewProxy(t testing.TB, network, address string) *Proxy {
	t.Helper()
	return NewBalancer(t, func() (net.Conn, error) { return net.Dial(network, address) })
}

// NewBalancer leads each connection to what dial connects it to until the test ends.
func NewBalancer(t testing.TB, dial func() (net.Conn, error)) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, dial: dial, links: map[*link]bool{}, open: make(chan struct{})}
	close(p.open)
	p.working.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.Release()
		p.Disconnect()
		p.working.Wait()
	})
	return p
}

// Address returns where clients connect.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Port returns the port of Address.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

// Cut closes the present connections, and returns how many there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closeAll()
}

// Disconnect closes all connections, and refuses new ones until Reconnect.
func (p *Proxy) Disconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.closeAll()
}

// Reconnect ends Disconnect.
func (p *Proxy) Reconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Silence swallows what the present connections send, and returns how many there are. Neither side notices; new connections work.
func (p *Proxy) Silence() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent.Store(true)
	}
	return len(p.links)
}

// Hold delays what is sent in both directions until Release.
func (p *Proxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// Release ends Hold.
func (p *Proxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.open:
	default:
		close(p.open)
	}
}

func (p *Proxy) closeAll() int {
	count := len(p.links)
	for l := range p.links {
		l.close()
	}
	clear(p.links)
	return count
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.working.Go(func() { p.connect(client) })
	}
}

func (p *Proxy) connect(client net.Conn) {
	server, err := p.dial()
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	if p.cut {
		p.mu.Unlock()
		l.close()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	p.working.Go(func() { p.pass(l, server, client, nil) })
	p.pass(l, client, server, p.OnHeld)
}

// pass copies what one side sends to the other.
func (p *Proxy) pass(l *link, from, to net.Conn, onHeld func([]byte)) {
	buffer := make([]byte, 64<<10)
	for {
		count, err := from.Read(buffer)
		p.wait(buffer[:count], onHeld)
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
			p.mu.Lock()
			delete(p.links, l)
			p.mu.Unlock()
			l.close()
			return
		}
	}
}

// wait returns when nothing is held.
func (p *Proxy) wait(content []byte, onHeld func([]byte)) {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	select {
	case <-open:
	default:
		if onHeld != nil {
			onHeld(content)
		}
		<-open
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}
