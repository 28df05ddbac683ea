// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package syncbuffer collects what a program says while a test may read it. It imports nothing of Annex, so that the tests of every
// package can use it.
package syncbuffer

import (
	"bytes"
	"sync"
)

// Buffer can be read while it is written. The zero value is empty.
type Buffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns all that was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
