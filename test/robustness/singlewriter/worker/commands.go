// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
)

// order is what a group was told.
type order struct {
	// wanted has the group run or not. Nobody waits for a group that takes long to stop.
	wanted chan bool
	// fail and panics end the present term; stuck has its runner not return.
	fail, panics chan struct{}
	stuck        atomic.Bool
}

func newOrder() *order {
	return &order{wanted: make(chan bool, 64), fail: make(chan struct{}), panics: make(chan struct{})}
}

// condition ties the group to the orders.
func (o *order) condition(ctx context.Context, report func(bool)) error {
	report(true)
	for {
		select {
		case on := <-o.wanted:
			report(on)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// obey reads orders such as "off group-3".
func obey(in io.Reader, orders map[string]*order) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		verb, group, _ := strings.Cut(lines.Text(), " ")
		o := orders[group]
		if o == nil {
			fmt.Fprintf(os.Stderr, "worker: %q names no group\n", lines.Text())
			continue
		}
		switch verb {
		case "off":
			o.wanted <- false
		case "on":
			o.wanted <- true
		case "stick":
			o.stuck.Store(true)
		case "unstick":
			o.stuck.Store(false)
		case "heap":
			debug.FreeOSMemory()
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			say(event{Event: "heap", Group: group, Bytes: memory.HeapAlloc})
		case "fail":
			offer(o.fail)
		case "panic":
			offer(o.panics)
		default:
			fmt.Fprintf(os.Stderr, "worker: %q is no order\n", lines.Text())
		}
	}
}

// offer is for a runner, if there is one.
func offer(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
