// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"testing"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// TestWhoChangedTheValue has a Feature that is On become Off in one step after another, and tells whether its sweep awaits
// confirmation, since nobody but the default has changed its value.
func TestWhoChangedTheValue(t *testing.T) {
	t.Parallel()
	by := func(source v1alpha1.Source, value, theDefault v1alpha1.Value) replica {
		return says("a", value, source, dynamicOnes, func(a *announcement) { a.Default = theDefault })
	}
	another := func(r replica) replica {
		r.name = "b" + leaseSuffix
		return announcing(r, func(a *announcement) { a.Version = "v1.5.1" })
	}
	for name, tc := range map[string]struct {
		source     v1alpha1.Source
		theDefault v1alpha1.Value
		desired    v1alpha1.Value
		steps      [][]replica
		awaits     bool
	}{
		"the default changes":                                           {source: byDefault, theDefault: on, steps: [][]replica{{by(byDefault, off, off)}}, awaits: true},
		"the default changed unnoticed":                                 {source: byDefault, theDefault: off, steps: [][]replica{{by(byDefault, off, off)}}, awaits: true},
		"a flag is set":                                                 {source: byDefault, theDefault: on, steps: [][]replica{{by(byFlag, off, on)}}},
		"a flag is set, which the new default agrees with":              {source: byDefault, theDefault: on, steps: [][]replica{{by(byFlag, off, off)}}},
		"a flag is turned":                                              {source: byFlag, theDefault: on, steps: [][]replica{{by(byFlag, off, on)}}},
		"a flag that set something else is taken away":                  {source: byFlag, theDefault: off, steps: [][]replica{{by(byDefault, off, off)}}},
		"a flag is taken away, of which the default is not known":       {source: byFlag, steps: [][]replica{{by(byDefault, off, off)}}},
		"a flag that repeated the default goes with it":                 {source: byFlag, theDefault: on, steps: [][]replica{{by(byDefault, off, off)}}, awaits: true},
		"a flag that repeated the default goes, and later that changes": {source: byFlag, theDefault: on, steps: [][]replica{{by(byDefault, on, on)}, {by(byDefault, off, off)}}, awaits: true},
		"a flag that repeated the default goes with it, on one replica after the other": {
			source: byFlag, theDefault: on, awaits: true,
			steps: [][]replica{{by(byFlag, on, on), another(by(byDefault, off, off))}, {by(byDefault, off, off), another(by(byDefault, off, off))}},
		},
		"a flag that set something else is taken away from one replica after the other": {
			source: byFlag, theDefault: off,
			steps: [][]replica{{by(byFlag, on, off), another(by(byDefault, off, off))}, {by(byDefault, off, off), another(by(byDefault, off, off))}},
		},
		"the flag is set on one replica only":   {source: byDefault, theDefault: on, steps: [][]replica{{by(byFlag, off, off), another(by(byDefault, off, off))}}, awaits: true},
		"desired is set":                        {source: byDefault, theDefault: on, desired: off, steps: [][]replica{{by(byDefault, on, on)}}},
		"desired is taken away":                 {source: v1alpha1.SourceDynamic, theDefault: off, steps: [][]replica{{by(byDefault, off, off)}}},
		"desired that repeated the default has": {source: v1alpha1.SourceDynamic, theDefault: on, steps: [][]replica{{by(byDefault, off, off)}}, awaits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := feature("On", on, tc.source)
			f.Status.Default, f.Spec.Desired = tc.theDefault, tc.desired
			for i, replicas := range tc.steps {
				if f.Status.State != v1alpha1.StateOn {
					t.Fatalf("before step %d the state is %s", i, f.Status.State)
				}
				f.Status = decide(f, look(replicas...)).status
			}
			if f.Status.State != v1alpha1.StateTurningOff {
				t.Fatalf("the state is %s, want TurningOff", f.Status.State)
			}
			sweep := f.Status.Tasks[len(f.Status.Tasks)-1]
			if awaiting := awaitsConfirmation(sweep); sweep.Name != "Sweep" || awaiting != tc.awaits {
				t.Errorf("%s awaits confirmation: %v, want %v", sweep.Name, awaiting, tc.awaits)
			}
		})
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	t.Parallel()
	// What is no version is lower than all versions.
	ordered := []string{"a", "b", "v1.5.0", "v1.10.0", "v2.0.0"}
	for i, a := range ordered {
		for j, b := range ordered {
			if got := compareVersions(a, b); got != cmp.Compare(i, j) {
				t.Errorf("%s to %s is %d", a, b, got)
			}
		}
	}
}
