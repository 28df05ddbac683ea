// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter_test

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/robustness/report"
	"github.com/kube-annex/annex/test/robustness/singlewriter"
)

const root = "../../.."

var faultCount = flag.Int("faults", 50, "how many faults each proof has; 1000 with -full")

func TestMain(m *testing.M) {
	flag.Parse()
	if report.Full() {
		*faultCount = 1000
	}
	os.Exit(m.Run())
}

// soon is timings with which a thousand faults take minutes.
func soon() leadership.Timings {
	return leadership.Timings{
		LeaseDuration: 2 * time.Second, RenewDeadline: 1200 * time.Millisecond, RetryPeriod: 200 * time.Millisecond,
		StopTimeout: time.Second, BalanceAfter: time.Second,
	}
}

func start(t *testing.T, options singlewriter.Options, tags ...string) *singlewriter.Proof {
	t.Helper()
	options.Seed, _ = report.Seed(t, fmt.Sprintf("-faults=%d", *faultCount))
	options.Annex = framework.Annex(t, root)
	options.Binary = framework.Build(t, "faults-worker", root, "./test/robustness/singlewriter/worker", tags...)
	options.Namespace = "faults"
	if options.Timings == (leadership.Timings{}) {
		options.Timings = soon()
	}
	return singlewriter.Start(t, options)
}

// TestEveryWriteBelongsToTheTermOfItsRevision has all faults, and checks each write in etcd's history.
func TestEveryWriteBelongsToTheTermOfItsRevision(t *testing.T) {
	t.Parallel()
	proof := start(t, singlewriter.Options{Faults: singlewriter.AllFaults})
	proof.Run(t, *faultCount)
	proof.Settle(t)
	proof.Finish(t)
	proof.Verdict(t)
}

// TestRunnersOfAGroupNeverRunAtTheSameTime has no fence, and all faults that a process can notice in time.
func TestRunnersOfAGroupNeverRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	proof := start(t, singlewriter.Options{Faults: singlewriter.Unpaused(), Plain: true})
	proof.Run(t, *faultCount)
	proof.Settle(t)
	proof.Finish(t)
	proof.Verdict(t)
}

// few faults are enough for what is broken on purpose.
const few = 30

func TestLettingGoBeforeRunnersHaveReturnedIsNoticed(t *testing.T) {
	t.Parallel()
	proof := start(t, singlewriter.Options{Faults: singlewriter.Named("hand-over", "interrupt", "refuse"), Plain: true}, "-tags", "annex_release_early")
	wantNoticed(t, proof)
}

func TestWritesThatNameNoTermAreNoticed(t *testing.T) {
	t.Parallel()
	proof := start(t, singlewriter.Options{Faults: singlewriter.Named("delay", "pause"), DropTerms: true})
	wantNoticed(t, proof)
}

func wantNoticed(t *testing.T, proof *singlewriter.Proof) {
	t.Helper()
	proof.Run(t, few)
	t.Log(proof.Summary(t))
	violations := proof.Violations(t)
	if len(violations) == 0 {
		t.Fatalf("%d faults showed nothing", few)
	}
	t.Logf("noticed: %s", violations[0])
}
