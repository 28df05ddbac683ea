// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report gives the tests of test/robustness their seeds, and prints how to repeat one that failed.
package report

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	seedFlag = flag.Uint64("seed", 0, "seed of a test; 0 for a new one")
	full     = flag.Bool("full", false, "run each fault as often and as long as the table of faults has it")
)

// Full reports whether tests run in full. The flags must have been parsed.
func Full() bool { return *full }

// Seed returns the seed of a test, and the command that repeats the test with further flags. A test that fails prints both.
func Seed(t testing.TB, flags ...string) (seed uint64, again string) {
	t.Helper()
	if seed = *seedFlag; seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	_, suite, _ := strings.Cut(dir, "/test/robustness/")
	again = fmt.Sprintf("go test -count=1 -timeout 2h -run '^%s$' ./test/robustness/%s -args %s", t.Name(), suite,
		strings.Join(append([]string{fmt.Sprintf("-seed=%d", seed)}, flags...), " "))
	if Full() {
		again += " -full"
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; again with: %s", seed, again)
		}
	})
	return seed, again
}
