// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"testing"
	"time"
)

// Eventually waits until check returns nil, and ends the test with what it said last when the limit is over.
func Eventually(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still after %s: %v", limit, err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
