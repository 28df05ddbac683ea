// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube builds the Kubernetes components of the end-to-end tests into the cache, unless they are there; with the argument
// "specs", Kubernetes' own end-to-end specs, and with "samples" its sample servers. The tests would do it themselves, but for them
// the minutes it takes count against the time limit of `go test`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/kube-annex/annex/test/framework/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	build := cluster.Build
	if slices.Contains(os.Args[1:], "specs") {
		build = cluster.BuildSpecs
	}
	if slices.Contains(os.Args[1:], "samples") {
		build = cluster.BuildSamples
	}
	if _, err := build(ctx, ".", os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
