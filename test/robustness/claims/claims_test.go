// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/kube-annex/annex/test/robustness/claims"
	"github.com/kube-annex/annex/test/robustness/report"
)

var rounds = flag.Int("rounds", 100, "how many rounds the proof has")

func TestMain(m *testing.M) { claims.Main(m) }

func start(t *testing.T, options claims.Options) *claims.Proof {
	t.Helper()
	options.Seed, _ = report.Seed(t, fmt.Sprintf("-rounds=%d", *rounds))
	return claims.Start(t, options)
}

// TestTheIDOutlivesTheMembership has sixteen clients write both claims at three replicas of three etcd members, which are killed.
func TestTheIDOutlivesTheMembership(t *testing.T) {
	t.Parallel()
	proof := start(t, claims.Options{Members: 3, Replicas: 3, KillReplicaEvery: 33, KillLeaderEvery: 50})
	proof.Run(t, *rounds, proof.Violated)
	proof.Verdict(t)
}

// TestTheProofCatchesCheckThenWrite takes the guard away, and wants both checkers to find that out.
func TestTheProofCatchesCheckThenWrite(t *testing.T) {
	t.Parallel()
	proof := start(t, claims.Options{Members: 1, Replicas: 2, Unguarded: true})
	proof.Run(t, 100, func() bool { return len(proof.Moments()) > 0 && len(proof.Impossible()) > 0 })
	t.Log(proof.Summary())
	for name, found := range map[string][]string{"etcd's history": proof.Moments(), "the answers": proof.Impossible()} {
		if len(found) == 0 {
			t.Errorf("100 rounds of replicas that check first and then write violated nothing in %s", name)
		} else {
			t.Logf("%d violations in %s, the first of which: %s", len(found), name, found[0])
		}
	}
}
