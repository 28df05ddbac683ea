// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// cleaned is a gate of a field: what uses it can be counted and cleared.
func cleaned(f *Feature) *Feature {
	f.On, f.Off = nil, []Task{{Name: "ClearField", DataChanging: true, Run: nothing}}
	f.Count = func(context.Context) (v1alpha1.DanglingReferences, error) { return v1alpha1.DanglingReferences{}, nil }
	return f
}

func withCount(f *Feature) *Feature {
	own := f.On
	f = cleaned(f)
	f.On = own
	return f
}

// housekeeping is a gate with a task of its own before the sweep, and a count.
func housekeeping(f *Feature) *Feature {
	own := f.Off
	f = cleaned(f)
	f.Off = own
	return f
}

// TestFeatureThatIsAnnouncedAnewSweepsOnlyWhatSomebodyChose announces a Feature without a state, whose object may have been lost while
// users had stored data, and follows it until it waits for something else than the count.
func TestFeatureThatIsAnnouncedAnewSweepsOnlyWhatSomebodyChose(t *testing.T) {
	t.Parallel()
	seenOn := func(f *v1alpha1.Feature) *v1alpha1.Feature {
		f.Status.Uses = []v1alpha1.Use{{Component: "client", Version: "v1", Value: on}}
		return f
	}
	unguarded := func(v *input) { v.timings.WriteGrace = 0; v.timings = v.timings.withDefaults() }
	for name, tc := range map[string]struct {
		feature *v1alpha1.Feature
		gate    *Feature
		says    replica
		change  func(*input)
		stored  int64
		want    []string
		state   v1alpha1.State
	}{
		"off by default, nothing stored": {
			gate: cleaned(gate()), says: says("a", off, byDefault), state: v1alpha1.StateOff,
		},
		"off by default, something stored": {
			gate: cleaned(gate()), says: says("a", off, byDefault), stored: 1, state: v1alpha1.StateTurningOff,
			want: []string{"WaitForUses Running", "ClearField AwaitingConfirmation", "CountReferences Pending"},
		},
		"off by default while allowed to be set, something stored": {
			gate: cleaned(gate()), says: says("a", off, byDefault, dynamicOnes), stored: 1, state: v1alpha1.StateTurningOff,
			want: []string{"WaitForUses Running", "ClearField AwaitingConfirmation", "CountReferences Pending"},
		},
		"off by flag, something stored": {
			gate: cleaned(gate()), says: says("a", off, byFlag), stored: 1, state: v1alpha1.StateTurningOff,
			want: []string{"WaitForUses Running", "ClearField Pending", "CountReferences Pending"},
		},
		"off by default, nothing stored, but a component sees it on": {
			feature: seenOn(feature("", "", "")), gate: cleaned(gate()), says: says("a", off, byDefault), state: v1alpha1.StateTurningOff,
			want: []string{"WaitForUses Running", "ClearField Pending", "CountReferences Pending"},
		},
		"off by default, nothing stored, but the server has to do more than to clean up": {
			gate: housekeeping(gate()), says: says("a", off, byDefault), state: v1alpha1.StateTurningOff,
			want: []string{"WaitForUses Running", "Check Pending", "Sweep Pending", "CountReferences Pending"},
		},
		"off by default, nothing can be stored": {
			gate: &Feature{Name: "Foo"}, says: says("a", off, byDefault), state: v1alpha1.StateOff,
		},
		"off by default, nothing to clean up, something stored": {
			gate: &Feature{Name: "Foo", Count: cleaned(gate()).Count}, says: says("a", off, byDefault), stored: 1, state: v1alpha1.StateTurningOff,
			want: []string{"WaitForUses Running", "CountReferences Pending"},
		},
		"on by default, nothing to prepare": {
			gate: &Feature{Name: "Foo"}, says: says("a", on, byDefault), state: v1alpha1.StateTurningOn, want: []string{"WaitForUses Running"},
		},
		"turned on after its first count": {
			feature: feature("TurningOff", off, byFlag, "ClearField Pending", "CountReferences Pending"),
			gate:    withCount(gate()), says: says("a", on, byFlag), state: v1alpha1.StateTurningOn,
			want: []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"},
		},
		"turned on, and never counted": {
			feature: feature("TurningOff", off, byFlag, "Check Pending", "Sweep Pending"),
			gate:    withCount(gate()), says: says("a", on, byFlag), state: v1alpha1.StateTurningOn,
			want: []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"},
		},
		"off by default, what is stored cannot be counted": {
			gate: gate(), says: says("a", off, byDefault), state: v1alpha1.StateTurningOff,
			want: []string{"WaitForUses Running", "Check Pending", "Sweep AwaitingConfirmation"},
		},
		"on by default, nothing stored": {
			gate: withCount(gate()), says: says("a", on, byDefault), state: v1alpha1.StateTurningOn,
			want: []string{"Prepare Running", "Overwrite Pending", "WaitForUses Pending"},
		},
		"on by default, something stored": {
			gate: withCount(gate()), says: says("a", on, byDefault), stored: 1, state: v1alpha1.StateTurningOn,
			want: []string{"Prepare Running", "Overwrite AwaitingConfirmation", "WaitForUses Pending"},
		},
		"off by default, where servers write during the count": {
			gate: cleaned(gate()), says: says("a", off, byDefault), change: unguarded, state: v1alpha1.StateTurningOff,
			want: []string{"WaitForUses Running", "CountReferences Pending", "ClearField AwaitingConfirmation", "CountReferences Pending"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tc.feature
			if f == nil {
				f = feature("", "", "")
			}
			v := look(tc.says)
			v.definition = tc.gate
			if tc.change != nil {
				tc.change(&v)
			}
			got := decide(f, v)
			for got.start && got.status.Tasks[0].Name == CountReferences {
				task := got.status.Tasks[0]
				v.counted = v.counted || got.counted
				v.taskRun = &taskRunState{
					state: got.status.State, task: task.Name, attempts: task.Attempts, started: *task.LastAttemptTime, ended: true,
					report: taskReport{dangling: &v1alpha1.DanglingReferences{Count: tc.stored}},
				}
				f.Status = got.status
				got = decide(f, v)
			}
			summary := summarize(got)
			if diff := cmp.Diff(tc.want, summary.Tasks); diff != "" || summary.State != tc.state {
				t.Errorf("it is %s, want %s; tasks (-want,+got):\n%s", summary.State, tc.state, diff)
			}
		})
	}
}

// TestNewFeatureIsCountedAgainAfterItIsTurnedRound changes the value while the first count is still to be done.
func TestNewFeatureIsCountedAgainAfterItIsTurnedRound(t *testing.T) {
	t.Parallel()
	f := feature("TurningOn", on, byDefault, "CountReferences Running", "Overwrite AwaitingConfirmation", "WaitForUses Pending")
	f.Status.Default = on
	f.Status.Tasks[0].Attempts, f.Status.Tasks[0].LastAttemptTime = 1, &metav1.Time{Time: now}
	v := look(says("a", off, byDefault))
	v.definition = cleaned(gate())
	want := []string{"CountReferences Running", "WaitForUses Pending", "ClearField AwaitingConfirmation", "CountReferences Pending"}
	if diff := cmp.Diff(want, summarize(decide(f, v)).Tasks); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
