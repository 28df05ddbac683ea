// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command annex is the extension apiserver, the control plane, and both together, by subcommand.
package main

import (
	"context"
	"os"
)

func main() {
	ctx, stop := untilSignal(context.Background())
	go releaseMemory(ctx)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
