// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// TestReplicaWithoutDynamicPermissionDoesNotTurnTheFeatureOff starts one of two replicas without --dynamic-features while a Feature is
// On by spec.desired, and then the other.
func TestReplicaWithoutDynamicPermissionDoesNotTurnTheFeatureOff(t *testing.T) {
	t.Parallel()
	f := wishing(on, feature("On", on, v1alpha1.SourceDynamic))
	f.Status.Default = off
	got := decide(f, look(says("a", off, byDefault, dynamicOnes), says("b", off, byDefault)))
	conflict := meta.FindStatusCondition(got.status.Conditions, v1alpha1.FeatureConflict)
	if got.status.State != v1alpha1.StateOn || got.status.Source != v1alpha1.SourceDynamic || conflict.Status != "True" {
		t.Errorf("the Feature is %s by %s with Conflict %s, want On by Dynamic in conflict", got.status.State, got.status.Source, conflict.Status)
	}
	for _, part := range []string{"a (v1.5.0) wants Disabled and allows spec.desired", "b (v1.5.0) wants Disabled and does not allow spec.desired"} {
		if !strings.Contains(conflict.Message, part) {
			t.Errorf("Conflict says %q, want %q in it", conflict.Message, part)
		}
	}

	// No sweep goes on, either.
	sweeping := wishing(off, feature("TurningOff", off, v1alpha1.SourceDynamic, "Sweep Running"))
	if got := summarize(decide(sweeping, look(says("a", off, byDefault, dynamicOnes), says("b", off, byDefault)))); got.Tasks[0] != "Sweep Pending" {
		t.Errorf("the sweep is %q while replicas differ, want it to wait", got.Tasks[0])
	}

	// Without the permission on all replicas, spec.desired is ignored, but nobody has chosen another value.
	f.Status = got.status
	got = decide(f, look(says("a", off, byDefault), says("b", off, byDefault)))
	if sweep := got.status.Tasks[len(got.status.Tasks)-1]; got.status.State != v1alpha1.StateTurningOff || !awaitsConfirmation(sweep) {
		t.Errorf("the Feature is %s with %s %s, want TurningOff, and the sweep to await confirmation", got.status.State, sweep.Name, sweep.State)
	}
}
