// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// links are the network between members of etcd. Each member is reached through a listener here, and says in its first request who it is.
type links struct {
	mu      sync.Mutex
	ids     []string
	alone   map[int]bool
	open    map[*link]bool
	serving sync.WaitGroup
}

// link is a connection from one member to another; from is less than 0 when that is not known.
type link struct {
	from, to int
	ends     [2]net.Conn
}

var sender = regexp.MustCompile(`(?i)\r\nX-Server-From: ([0-9a-f]+)\r\n`)

// listen makes a way to a member, and returns where it begins.
func (l *links) listen(t testing.TB, to int, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	l.serving.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			l.serving.Go(func() { l.pass(connection, to, address) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.isolate(to)
	})
	return listener.Addr().String()
}

// pass carries one connection.
func (l *links) pass(client net.Conn, to int, address string) {
	defer func() { _ = client.Close() }()
	var head bytes.Buffer
	buffer := make([]byte, 4096)
	for !strings.Contains(head.String(), "\r\n\r\n") {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		head.Write(buffer[:n])
	}
	member, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = member.Close() }()
	carried := &link{from: -1, to: to, ends: [2]net.Conn{client, member}}
	if !l.begin(carried, head.String()) {
		return
	}
	defer l.end(carried)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(client, member)
		_ = client.Close()
	}()
	if _, err := member.Write(head.Bytes()); err == nil {
		_, _ = io.Copy(member, client)
	}
	_ = member.Close()
	<-done
}

func (l *links) begin(carried *link, head string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if found := sender.FindStringSubmatch(head); found != nil {
		for i, id := range l.ids {
			if id == found[1] {
				carried.from = i
			}
		}
	}
	if l.alone[carried.from] || l.alone[carried.to] {
		return false
	}
	l.open[carried] = true
	return true
}

func (l *links) end(carried *link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, carried)
}

// isolate cuts a member off from all others, in both directions.
func (l *links) isolate(member int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alone[member] = true
	for carried := range l.open {
		if carried.from == member || carried.to == member {
			_, _ = carried.ends[0].Close(), carried.ends[1].Close()
		}
	}
}

func (l *links) heal(member int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.alone, member)
}
