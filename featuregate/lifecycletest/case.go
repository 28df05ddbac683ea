// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycletest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	basegate "k8s.io/component-base/featuregate"
)

// Case is how one feature is used. Its functions have a client with all rights, and may be called any number of times. Those that are
// nil do nothing, but Use and CheckOff are needed.
type Case struct {
	// Feature is the name of the Feature, and of its gate.
	Feature string
	// Prepare stores, while the feature is off, what Use changes. It is called once.
	Prepare func(t testing.TB, client *rest.Config)
	// Use uses the feature, and checks that it works. What it changes has to be as before when the feature is off again.
	Use func(t testing.TB, client *rest.Config)
	// StopUsing does what users have to do while the feature is TurningOff and waits for them.
	StopUsing func(t testing.TB, client *rest.Config)
	// CheckOff checks that the feature cannot be used, and leaves nothing behind.
	CheckOff func(t testing.TB, client *rest.Config)
}

// Server is the server under test: a process, or several that are killed together, in front of storage that survives.
type Server interface {
	// Start starts the server with these values of its gates on the command line, and returns when it serves. If it runs, it is ended
	// in order before that.
	Start(t testing.TB, gates map[string]bool)
	// Kill ends it with SIGKILL.
	Kill(t testing.TB)
	// Config reaches the API with all rights, since the last Start.
	Config() *rest.Config
	// Stored returns all that is stored, by key, as JSON with everything that the storage has; or nil if that cannot be told. The
	// server serves meanwhile.
	Stored(ctx context.Context) (map[string][]byte, error)
}

// Options say what Run does.
type Options struct {
	// Namespace is where the Features are.
	Namespace string
	// Rounds is how many rounds with kills there are; 0 means that the server is only restarted.
	Rounds int
	// Seed draws the points of the kills.
	Seed uint64
	// Patience is how long a transition may take; 2 min.
	Patience time.Duration
	// Following is how long after a transition what is published, and what controllers write, may take to follow it; 45 s.
	Following time.Duration
	// Exclude adds to what may differ between two moments.
	Exclude []Exclusion
}

// Gates is what Covered needs of a feature gate.
type Gates interface {
	GetAll() map[basegate.Feature]basegate.FeatureSpec
}

// Covered fails for every gate that has no case, and for every case that has no gate or lacks something. AllAlpha and AllBeta are no
// features, and gates that are locked cannot be turned.
func Covered(t testing.TB, gates Gates, cases []Case) {
	t.Helper()
	have := map[string]int{}
	for _, c := range cases {
		have[c.Feature]++
		if c.Use == nil || c.CheckOff == nil {
			t.Errorf("the case of feature %s lacks Use or CheckOff", c.Feature)
		}
	}
	all := gates.GetAll()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n := have[string(name)]
		delete(have, string(name))
		switch {
		case name == "AllAlpha", name == "AllBeta", all[name].LockToDefault:
		case n == 0:
			t.Errorf("feature gate %s has no case; say how it is used, and what is checked when it is off", name)
		case n > 1:
			t.Errorf("feature gate %s has %d cases; make them one", name, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		t.Errorf("the case of %s is of no feature gate; take it out", name)
	}
}
