// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// An idle server collects garbage rarely: only once it has allocated as much again as it uses. Until then it keeps the memory that its
// start needed.
const (
	// memoryCheck is the interval at which memory is given back to the system while the process is idle.
	memoryCheck = 5 * time.Second
	// idleBelow is the number of bytes that an idle process allocates between two checks at most.
	idleBelow = 16 << 20
)

// releaseMemory collects garbage and gives memory back to the system while the process is idle, until the context ends. GOGC in the
// environment turns it off.
func releaseMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(memoryCheck)
	defer ticker.Stop()
	for last := allocated(); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		total := allocated()
		if total-last < idleBelow {
			debug.FreeOSMemory()
		}
		last = total
	}
}

// allocated returns the number of bytes that the process has allocated since its start.
func allocated() uint64 {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
