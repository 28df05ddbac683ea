// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

// Flags are those that the fault tests have in common.
type Flags struct {
	// Full has each fault as often, and as long, as the table of faults says.
	Full bool
	// Seed is that of all tests; 0 is a new one for each.
	Seed uint64
}

// AddFlags adds them.
func (f *Flags) AddFlags(set *flag.FlagSet) {
	set.BoolVar(&f.Full, "full", false, "have each fault as often and as long as the table of faults says")
	set.Uint64Var(&f.Seed, "seed", 0, "seed of the test; 0 for a new one")
}

// Replay returns the seed of a test and how it is run again. Failing tests print both.
func (f *Flags) Replay(t testing.TB, target string) (seed uint64, again string) {
	t.Helper()
	seed = f.Seed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	again = fmt.Sprintf("go test -count=1 -timeout 2h -run '^%s$' %s -args -seed=%d -full=%t", t.Name(), target, seed, f.Full)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; again with: %s", seed, again)
		}
	})
	return seed, again
}
