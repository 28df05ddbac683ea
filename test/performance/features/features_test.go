// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
)

// What is counted holds at any size; only what is timed needs the size of the bench.

func startSmall(t *testing.T, s settings, args ...string) (*annex, settings) {
	t.Helper()
	s.binary, s.dir = framework.Annex(t, "../../.."), t.TempDir()
	a, err := startAnnex(t.Context(), s, "annex", args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.process.Kill() })
	return a, s
}

// TestReportersWriteSeldom starts some reporters and asks them two questions, and counts what is written to Features.
func TestReportersWriteSeldom(t *testing.T) {
	t.Parallel()
	a, s := startSmall(t, settings{reporters: 40, window: 4 * time.Second})
	r, err := newReporters(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	count := func(do func() error) int {
		t.Helper()
		writes, _, err := r.written(t.Context(), do)
		if err != nil {
			t.Fatal(err)
		}
		return writes
	}
	if got, most := count(func() error { return r.announce(t.Context()) }), 3*numberOfFeatures; got > most {
		t.Errorf("%d writes announce %d Features, want at most %d", got, numberOfFeatures, most)
	}
	stop := r.serve(t.Context(), s.window)
	kinds := map[string]bool{}
	for i := range s.reporters {
		component, version := componentOf(i)
		kinds[component+" "+version] = true
	}
	got := count(func() error {
		runSome(t, a.config, s.reporters)
		return r.waitForReporters(t.Context(), s.reporters)
	})
	if want := len(kinds) * numberOfFeatures; got != want {
		t.Errorf("%d writes as %d reporters of %d kinds start, want %d", got, s.reporters, len(kinds), want)
	}
	for _, value := range []v1alpha1.Value{v1alpha1.ValueDisabled, v1alpha1.ValueEnabled} {
		got := count(func() error {
			_, _, err := r.ask(t.Context(), s, value, &table{})
			return err
		})
		// The wish, that it is heard, the question, an answer of each kind, and the end.
		if most := 4 + len(kinds); got > most {
			t.Errorf("%d writes for a question to %d reporters of %d kinds, want at most %d", got, s.reporters, len(kinds), most)
		}
	}
	if err = stop(); err != nil {
		t.Error(err)
	}
}

// runSome runs reporters in this process until the test ends.
func runSome(t *testing.T, config *rest.Config, count int) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runReporters(ctx, config, reportersNamespace, count, 1000) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestClearingWritesOnce turns a feature off while objects have its field, and again with the server killed as it clears them: each
// object is written once, those without the field never.
func TestClearingWritesOnce(t *testing.T) {
	t.Parallel()
	a, s := startSmall(t, settings{objects: 1600}, clearingArgs(0)...)
	if _, err := turn(t.Context(), a, v1alpha1.ValueEnabled); err != nil {
		t.Fatal(err)
	}
	if err := createBalloons(t.Context(), a, s.objects); err != nil {
		t.Fatal(err)
	}
	if err := unlimited(t.Context(), a, &table{}); err != nil {
		t.Fatal(err)
	}
	if err := killed(t.Context(), s, a, s.objects, &table{}); err != nil {
		t.Fatal(err)
	}
}
