// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube builds the Kubernetes components of the end-to-end tests into the cache, unless they are there. The tests would do
// it themselves, but for them the minutes it takes count against the time limit of `go test`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/kube-annex/annex/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if _, err := cluster.Build(ctx, ".", os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
