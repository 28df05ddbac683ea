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

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kube-annex/annex/test/faults/load"
	"github.com/kube-annex/annex/test/harness"
)

const (
	root = "../../.."

	// patience is how long anything may take on a busy machine.
	patience = time.Minute
	interval = 20 * time.Millisecond
)

var (
	flags load.Flags
	// binary is that of annex.
	binary string
)

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
	flags.AddFlags(flag.CommandLine)
	flag.Parse()
	var err error
	if binary, err = harness.AnnexFor(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// quickOr returns the first in the quick form of a row, and the second in full.
func quickOr[T any](quick, whole T) T {
	if flags.Full {
		return whole
	}
	return quick
}

// seeded returns the seed of a test, and numbers that follow from it.
func seeded(t *testing.T) (uint64, *rand.Rand) {
	t.Helper()
	seed, _ := flags.Replay(t, "./test/faults/serving")
	t.Logf("seed %d", seed)
	return seed, rand.New(rand.NewPCG(seed, 0))
}

// eventually waits for a condition, and fails with what was wrong last.
func eventually(t *testing.T, what string, condition func(context.Context) error) time.Duration {
	t.Helper()
	return within(t, patience, what, condition)
}

// within is eventually with a time limit of its own. It returns how long it took.
func within(t *testing.T, limit time.Duration, what string, condition func(context.Context) error) time.Duration {
	t.Helper()
	var last error
	began := time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), interval, limit, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting %s until %s: %v", limit, what, last)
	}
	return time.Since(began)
}
