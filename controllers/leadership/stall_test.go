// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"sync/atomic"
	"testing"
	"time"
)

// stalls measures how late the machine lets this process do what is due. No process can keep to a time that it does not get: what a test
// wants to happen by a certain time may be late by as much as that.
type stalls struct {
	longest atomic.Int64
}

// newStalls measures until the test ends.
func newStalls(t testing.TB) *stalls {
	t.Helper()
	s := &stalls{}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		const every = 10 * time.Millisecond
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case <-ticker.C:
				now := time.Now()
				s.longest.Store(max(s.longest.Load(), int64(now.Sub(last)-every)))
				last = now
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	return s
}

// latest is the end of a span of time, as late as the machine was.
func (s *stalls) latest(high time.Duration) time.Duration {
	// Several goroutines have to run one after the other.
	return high + 3*time.Duration(s.longest.Load())
}
