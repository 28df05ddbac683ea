// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/robustness/report"
)

const (
	root = "../../.."

	// patience is how long anything may take on a busy machine.
	patience = time.Minute
)

// binary is that of annex.
var binary string

// TestMain is the main function of hosts, too: they are this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleHost {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := runHost(ctx, os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	var err error
	if binary, err = framework.AnnexFor(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// quickOr returns the first in the quick form of a row, and the second in full.
func quickOr[T any](quick, whole T) T {
	if report.Full() {
		return whole
	}
	return quick
}

// seeded returns the seed of a test, and numbers that follow from it.
func seeded(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	seed, _ := report.Seed(t)
	t.Logf("seed %d", seed)
	return seed, rand.New(rand.NewPCG(seed, 0))
}
