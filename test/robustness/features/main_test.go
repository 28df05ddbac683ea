// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/kube-annex/annex/registry/resource/resourcetest"
	"github.com/kube-annex/annex/test/robustness/report"
)

var (
	rounds      = flag.Int("rounds", 1, "how often each fault is repeated")
	replicaFlag = flag.String("replica", "", "run as the replica with these settings, for the tests alone")
)

// TestMain is the main function of replicas, too: they are this program.
func TestMain(m *testing.M) {
	flag.Parse()
	if *replicaFlag == "" {
		resourcetest.Main(m)
		return
	}
	if err := runReplica(*replicaFlag); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// random returns a source of numbers that a failure tells how to have again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed, _ := report.Seed(t, fmt.Sprintf("-rounds=%d", *rounds))
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
