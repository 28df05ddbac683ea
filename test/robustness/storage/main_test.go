// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"google.golang.org/grpc/grpclog"

	"github.com/kube-annex/annex/test/robustness/report"
)

const root = "../../.."

func TestMain(m *testing.M) {
	flag.Parse()
	// What etcd's client says while a member is away is no news here.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	os.Exit(m.Run())
}

// row is one row of the table of faults.
type row struct {
	seed   uint64
	again  string
	random *rand.Rand
}

func newRow(t *testing.T) row {
	t.Helper()
	seed, again := report.Seed(t)
	return row{seed: seed, again: again, random: rand.New(rand.NewPCG(seed, 0))}
}

// times is how often something is done.
func times(quick, full int) int {
	if report.Full() {
		return full
	}
	return quick
}
