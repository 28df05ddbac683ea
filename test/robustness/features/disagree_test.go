// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// fleet is the replicas of one server, by instance.
type fleet struct {
	*stage
	replicas map[string]*child
}

// startFleet starts three replicas with the feature on, and stores widgets that use it.
func startFleet(t *testing.T) *fleet {
	t.Helper()
	return startFleetWith(t, settings{Value: enabled}, func(*fleet) {})
}

// startFleetWith starts the replicas with settings by which, or by what turnOn does, the feature is on.
func startFleetWith(t *testing.T, settings settings, turnOn func(*fleet)) *fleet {
	t.Helper()
	f := &fleet{stage: newStage(t), replicas: map[string]*child{}}
	for _, instance := range []string{"a", "b", "c"} {
		f.roll(instance, settings)
	}
	turnOn(f)
	f.any().waitForState(v1alpha1.StateOn)
	for i := range 3 {
		name := fmt.Sprint("kept-", i)
		if _, err := f.any().widgets.Create(t.Context(), widget(name, 1), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fleet) any() *child { return f.replicas["a"] }

// roll replaces a replica by one with other flags, or of another version.
func (f *fleet) roll(instance string, settings settings) {
	f.t.Helper()
	if old := f.replicas[instance]; old != nil {
		old.stop()
	}
	settings.Instance = instance
	f.replicas[instance] = f.start(settings, nil)
}

// waitForConflict waits until the Feature names what each wants, and sees that it stays on with all that is stored.
func (f *fleet) waitForConflict(wants ...string) {
	f.t.Helper()
	on := func(feature *v1alpha1.Feature) bool {
		return feature.Status.State == v1alpha1.StateOn && feature.Status.Configured == enabled
	}
	f.any().waitFor("in conflict", func(feature *v1alpha1.Feature) bool {
		conflict := meta.FindStatusCondition(feature.Status.Conditions, v1alpha1.FeatureConflict)
		return on(feature) && conflict != nil && conflict.Status == metav1.ConditionTrue && conflict.Reason == "ReplicasDisagree" &&
			!slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(conflict.Message, want) })
	})
	f.holds(time.Second, func() string {
		feature, err := f.any().get()
		if err != nil || !on(feature) {
			return fmt.Sprintf("the Feature moved during the conflict: %v, %v", feature, err)
		}
		return ""
	})
}

// TestReplicasWithOtherFlagsDisagree has one replica after the other be started with another flag.
func TestReplicasWithOtherFlagsDisagree(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	// Two want one thing, and then two the other: that is no vote.
	f.roll("c", settings{Value: disabled})
	f.waitForConflict("widgets-a (v1.0.0) wants Enabled", "widgets-c (v1.0.0) wants Disabled")
	f.roll("b", settings{Value: disabled})
	f.waitForConflict("widgets-a (v1.0.0) wants Enabled", "widgets-b (v1.0.0) wants Disabled", "widgets-c (v1.0.0) wants Disabled")
	if h := read(t, f.etcd, f.prefix); h.transitions() != "TurningOn On" || h.sweeps != 0 || len(h.coloured) != 3 {
		t.Errorf("during the conflict: %s, %d sweeps, %d widgets with the field", h.transitions(), h.sweeps, len(h.coloured))
	}
	f.roll("a", settings{Value: disabled})
	f.any().waitForState(v1alpha1.StateOff)
	h := read(t, f.etcd, f.prefix)
	if h.transitions() != "TurningOn On TurningOff Off" || h.sweeps != 1 || len(h.coloured) != 0 || len(h.wrong) != 0 {
		t.Errorf("when they agreed: %s, %d sweeps, %d widgets with the field, %v", h.transitions(), h.sweeps, len(h.coloured), h.wrong)
	}
	if feature, err := f.any().get(); err != nil || meta.IsStatusConditionTrue(feature.Status.Conditions, v1alpha1.FeatureConflict) {
		t.Errorf("when they agreed: %v, %v", feature, err)
	}
}

// TestReplicaThatDoesNotAllowDesiredDisagrees restarts one of three replicas without the permission by which the feature is on.
func TestReplicaThatDoesNotAllowDesiredDisagrees(t *testing.T) {
	t.Parallel()
	dynamic := settings{Value: disabled, Dynamic: true}
	f := startFleetWith(t, dynamic, func(f *fleet) {
		f.any().waitForState(v1alpha1.StateOff)
		f.any().desire(enabled)
	})
	f.roll("c", settings{Value: disabled})
	f.waitForConflict("widgets-a (v1.0.0) wants Disabled and allows spec.desired", "widgets-c (v1.0.0) wants Disabled and does not allow spec.desired")
	f.roll("c", dynamic)
	f.any().waitFor("settled again", func(feature *v1alpha1.Feature) bool {
		return !meta.IsStatusConditionTrue(feature.Status.Conditions, v1alpha1.FeatureConflict) && meta.IsStatusConditionTrue(feature.Status.Conditions, v1alpha1.FeatureSettled)
	})
	if h := read(t, f.etcd, f.prefix); h.sweeps != 0 || len(h.coloured) != 3 || !strings.HasSuffix(h.transitions(), "TurningOn On") {
		t.Errorf("the Feature was %s, with %d sweeps; %d of 3 widgets still have the field", h.transitions(), h.sweeps, len(h.coloured))
	}
}

// TestRollingOneReplicaOfThree upgrades one of three replicas to a version with another value, and rolls it back: once as its user does,
// and once after it was killed.
func TestRollingOneReplicaOfThree(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	for _, ended := range []string{"stopped", "killed"} {
		f.roll("c", settings{Value: disabled, Version: "v1.1.0"})
		f.waitForConflict("widgets-b (v1.0.0) wants Enabled", "widgets-c (v1.1.0) wants Disabled")
		if ended == "killed" {
			f.replicas["c"].process.Kill()
			delete(f.replicas, "c")
		}
		f.roll("c", settings{Value: enabled})
		f.any().waitFor("settled again", func(feature *v1alpha1.Feature) bool {
			return !meta.IsStatusConditionTrue(feature.Status.Conditions, v1alpha1.FeatureConflict) && meta.IsStatusConditionTrue(feature.Status.Conditions, v1alpha1.FeatureSettled)
		})
	}
	h := read(t, f.etcd, f.prefix)
	if h.transitions() != "TurningOn On" || h.sweeps != 0 || len(h.coloured) != 3 {
		t.Errorf("the Feature was %s, with %d sweeps; %d of 3 widgets still have the field", h.transitions(), h.sweeps, len(h.coloured))
	}
}
