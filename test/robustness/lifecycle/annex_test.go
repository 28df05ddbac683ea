// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/featuregate/lifecycletest"
	"github.com/kube-annex/annex/server/featuregating/gates"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/robustness/report"
)

const root = "../../.."

var rounds = flag.Int("rounds", 2, "how many rounds with kills each server has")

func TestEveryGateHasACase(t *testing.T) {
	t.Parallel()
	lifecycletest.Covered(t, gates.New(), annexCases())
}

// TestAnnex has Annex's own features.
func TestAnnex(t *testing.T) {
	t.Parallel()
	inLanes(t, func(t *testing.T, rounds int, seed uint64) {
		server := &annex{binary: framework.Build(t, "lifecycle-server", root, "./test/robustness/lifecycle/server"), dataDir: dataDir(t)}
		lifecycletest.Run(t, server, annexCases(), lifecycletest.Options{Namespace: gates.Namespace, Rounds: rounds, Seed: seed, Exclude: annexExclusions()})
	})
}

// inLanes shares the rounds out among servers that run side by side: most of the time is spent waiting.
func inLanes(t *testing.T, run func(t *testing.T, rounds int, seed uint64)) {
	t.Helper()
	const roundsPerLane = 17
	seed, _ := report.Seed(t, fmt.Sprintf("-rounds=%d", *rounds))
	for lane, left := 0, *rounds; lane == 0 || left > 0; lane, left = lane+1, left-roundsPerLane {
		t.Run(fmt.Sprintf("lane %d", lane), func(t *testing.T) {
			t.Parallel()
			run(t, min(left, roundsPerLane), seed+uint64(lane))
		})
	}
}

// annexExclusions are what differs because of restarts.
func annexExclusions() []lifecycletest.Exclusion {
	return []lifecycletest.Exclusion{{
		Why: "annex notes in its APIServices when it was started, and when it published something else, which has the host look",
		Apply: func(object *unstructured.Unstructured) bool {
			if object.GetKind() == "APIService" {
				annotations := object.GetAnnotations()
				maps.DeleteFunc(annotations, func(key, _ string) bool { return strings.HasPrefix(key, "annex.io/") })
				object.SetAnnotations(annotations)
				object.SetManagedFields(nil)
			}
			return true
		},
	}}
}

// dataDir is a directory with a path so short that a socket in it has an address.
func dataDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "annex-lifecycle-") //nolint:usetesting // paths of t.TempDir are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "data")
}

// annex is `annex up`, with etcd and the host in its process.
type annex struct {
	binary, dataDir string
	process         *framework.Process
	config          *rest.Config
}

// Start implements lifecycletest.Server.
func (a *annex) Start(t testing.TB, gates map[string]bool) {
	t.Helper()
	if a.process != nil {
		if err := a.process.Interrupt(); err != nil {
			t.Fatal(err)
		}
	}
	a.process = framework.StartProcess(t, a.binary, a.dataDir, "--feature-gates="+flagOf(gates), "--feature-answer-window=500ms",
		"--dynamic-features=annex-system/FeatureCanary,annex-system/NodeBalloonReclaimPolicy", "--leader-elect-lease-duration=9s", "--leader-elect-renew-deadline=7s", "--leader-elect-retry-period=200ms",
		// Clearing takes long enough to be killed in it.
		"--task-qps=20")
	a.config = a.process.Config(t)
}

// Kill implements lifecycletest.Server.
func (a *annex) Kill(t testing.TB) {
	t.Helper()
	a.process.Kill()
	a.process = nil
}

// Config implements lifecycletest.Server.
func (a *annex) Config() *rest.Config { return a.config }

// Stored implements lifecycletest.Server.
func (a *annex) Stored(ctx context.Context) (map[string][]byte, error) {
	return storeIn(ctx, a.dataDir)
}

// flagOf is a value of --feature-gates.
func flagOf(gates map[string]bool) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		all = append(all, fmt.Sprintf("%s=%t", name, gates[name]))
	}
	return strings.Join(all, ",")
}
