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

// Go lets the heap grow to twice of what is in use before it collects garbage. That spares a busy server work, but one that hardly does
// anything holds memory for nothing, first of all what its start has needed. So at rest garbage is collected when a quarter has been
// added, which costs some 0.2 % of a core, and during the start when a half has: what stays lies closer together then. As soon as there is
// work, all is as Go has it.
const (
	startPercent = 50
	restPercent  = 25
	// memoryCheck is how often it is looked at how much has been allocated, and restBelow how much may have been of late at rest. At rest
	// it is looked at more often whether it is that much already: work that comes at once would collect garbage all the time.
	memoryCheck = time.Second
	restCheck   = memoryCheck / 20
	restBelow   = 5 << 20
	// restChecks are how many checks in a row that takes, and startChecks how many the start lasts at most.
	restChecks  = 3
	startChecks = 3
)

// saveMemory has the process hold less memory while it has little to do, until the context ends. Who sets GOGC has decided about that.
func saveMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	busyPercent := debug.SetGCPercent(startPercent)
	load := load{}
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	ticker := time.NewTicker(restCheck)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(allocated)
		total := allocated[0].Value.Uint64()
		if time.Since(last) < memoryCheck && !load.wakes(total) {
			continue
		}
		last = time.Now()
		before := load.state
		switch load.next(total) {
		case before:
		case resting:
			debug.SetGCPercent(restPercent)
			debug.FreeOSMemory()
		case working:
			debug.SetGCPercent(busyPercent)
		}
	}
}

// load finds out how much the process has to do from how much it has allocated so far.
type load struct {
	state loadState
	total uint64
	// recent is what has been allocated of late: what is a check older counts half.
	recent        uint64
	checks, quiet int
}

type loadState int

const (
	starting loadState = iota
	working
	resting
)

// wakes tells whether work has come since the last check.
func (l *load) wakes(total uint64) bool { return l.state == resting && total-l.total >= restBelow }

func (l *load) next(total uint64) loadState {
	l.recent = l.recent/2 + total - l.total
	l.total = total
	l.checks++
	l.quiet++
	if l.recent >= restBelow {
		l.quiet = 0
	}
	switch {
	case l.quiet >= restChecks:
		l.state = resting
	case l.quiet == 0 && (l.state != starting || l.checks >= startChecks):
		l.state = working
	}
	return l.state
}
