// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how soon a second signal may follow the first and still mean the same: a terminal or a supervisor often
// signals a process both by itself and as part of its group.
const sameSignal = 300 * time.Millisecond

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. A second one ends the process at once.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		first := time.Now()
		for time.Since(first) < sameSignal {
			<-signals
		}
		_, _ = os.Stderr.WriteString("annex: stopped at once by a second signal\n")
		os.Exit(1)
	}()
	return ctx, cancel
}
