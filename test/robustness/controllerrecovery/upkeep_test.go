// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"

	"google.golang.org/grpc/grpclog"

	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/robustness/report"
)

var (
	rounds         = flag.Int("rounds", 1, "how many rounds each world has")
	dependentsFlag = flag.Int("dependents", 500, "how many objects of one owner are collected")
)

// components is where etcd is.
var components string

func TestMain(m *testing.M) {
	serveIfAsked()
	flag.Parse()
	// What etcd's client says while a member is away is no news here.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	var err error
	if components, err = cluster.Build(context.Background(), root, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestReplicas kills three replicas of the control plane.
func TestReplicas(t *testing.T) {
	t.Parallel()
	prove(t, startReplicas(t))
}

// TestUp kills all that is in the process of `annex up`, etcd included. `make test` leaves it out until these defects are mended:
// a dependent of a custom resource stays if the collector is killed after it released the owner and before it deleted the dependent, and the
// definition is deleted meanwhile, since the next collector does not know the kind of the owner; and work that takes longer than the time
// between kills is not always resumed within minutes.
func TestUp(t *testing.T) {
	t.Parallel()
	prove(t, startUp(t))
}

func prove(t *testing.T, w *world) {
	t.Helper()
	seed, _ := report.Seed(t, fmt.Sprintf("-rounds=%d", *rounds))
	p := newProof(t, w, seed)
	t.Cleanup(func() {
		t.Logf("seed %d: %s", seed, p)
		if t.Failed() {
			t.Logf("before that:\n%s", p.noted())
		}
	})
	if err := p.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for round := range *rounds {
		if err := p.round(t.Context(), round); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}
