// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package upgrade_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/integration/lifecycle/upgrade/jars"
)

const (
	toUpgrade, toDowngrade = v1alpha1.FeatureSafeToUpgrade, v1alpha1.FeatureSafeToDowngrade

	upgradeTask = "Upgrade/v1.5.0/ClearCollection"
)

var large = map[string]any{"jar-0": "large", "jar-1": "large", "jar-2": "large"}

// refused is the Feature while its upgrade may not lose what is stored.
func refused(f *v1alpha1.Feature) bool {
	return f.Status.State == v1alpha1.StateTurningOn && f.Status.Tasks[0].Name == upgradeTask && f.Status.Tasks[0].State == v1alpha1.TaskFailed &&
		strings.Contains(f.Status.Tasks[0].Message, "--allow-data-loss") && f.Status.Version == string(jars.Alpha)
}

// wantSizes compares what a client lists.
func (r *replica) wantSizes(t *testing.T, own, leftovers map[string]any) {
	t.Helper()
	ownClient, leftoversClient := r.clients(t)
	if diff := cmp.Diff(own, sizes(t, ownClient)); diff != "" {
		t.Errorf("jars of %s at its release (-want,+got):\n%s", r.release, diff)
	}
	if diff := cmp.Diff(leftovers, sizes(t, leftoversClient)); diff != "" {
		t.Errorf("jars of the other release at %s (-want,+got):\n%s", r.release, diff)
	}
}

// TestUpgradeAndDowngrade takes an alpha feature that is On to its beta version, whose objects have another schema, and back.
func TestUpgradeAndDowngrade(t *testing.T) {
	t.Parallel()
	none := map[string]any{}
	for name, resolve := range map[string]func(t *testing.T, i *installation){
		"data loss is allowed": func(_ *testing.T, i *installation) { i.replaceAll(jars.Beta, true) },
		"somebody removes them": func(t *testing.T, i *installation) {
			_, leftovers := i.any().clients(t)
			if err := leftovers.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := install(t, jars.Alpha, false)
			i.any().fill(t, 3)
			f := i.settles("v1.4.0")
			if reason(f, toUpgrade) != "AlphaOn" || reason(f, toDowngrade) != "AlphaOn" {
				t.Errorf("while the alpha feature is On: %+v", f.Status.Conditions)
			}

			i.replaceAll(jars.Beta, false)
			f = i.wait("refused", refused)
			if reason(f, toUpgrade) != "Transition" || reason(f, toDowngrade) != "Transition" {
				t.Errorf("while the upgrade is refused: %+v", f.Status.Conditions)
			}
			i.any().wantSizes(t, none, large)
			own, leftovers := i.any().clients(t)
			resource, other := jars.Beta.Resource()
			if _, err := own.Create(t.Context(), jar(resource.GroupVersion().String(), "new", int64(1)), metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("a jar of the new version while use is not permitted: %v, want 404", err)
			}
			if _, err := leftovers.Create(t.Context(), jar(other.GroupVersion().String(), "old", "x"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("a jar of the old version: %v, want 403", err)
			}

			resolve(t, i)
			f = i.settles("v1.5.0")
			if reason(f, toUpgrade) != "Safe" || reason(f, toDowngrade) != "ChangesData" {
				t.Errorf("after the upgrade: %+v", f.Status.Conditions)
			}
			i.any().fill(t, 2)
			i.any().wantSizes(t, map[string]any{"jar-0": int64(700), "jar-1": int64(700)}, none)

			i.replaceAll(jars.Alpha, true)
			f = i.settles("v1.4.0")
			if reason(f, toUpgrade) != "AlphaOn" {
				t.Errorf("after the downgrade: %+v", f.Status.Conditions)
			}
			i.any().wantSizes(t, none, none)
			i.any().fill(t, 3)
			i.any().wantSizes(t, large, none)
			if !slices.ContainsFunc(i.notes(), func(ran string) bool { return strings.HasSuffix(ran, " ClearCollection") }) {
				t.Error("no task ran")
			}
		})
	}
}

// TestUpgradeIsResumed kills the replica that is at work in the middle of an upgrade, again and again.
func TestUpgradeIsResumed(t *testing.T) {
	i := install(t, jars.Alpha, false)
	i.any().fill(t, 3)
	own, _ := i.any().clients(t)
	if _, err := own.Patch(t.Context(), "jar-1", types.MergePatchType, []byte(`{"metadata":{"finalizers":["annex.test/hold"]}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	i.replaceAll(jars.Beta, true)
	attempts := int32(0)
	for range 2 {
		before := len(i.notes())
		f := i.wait("held by a finalizer", func(f *v1alpha1.Feature) bool {
			return len(f.Status.Tasks) == 2 && f.Status.Tasks[0].Name == upgradeTask && f.Status.Tasks[0].Attempts > attempts && strings.Contains(f.Status.Tasks[0].Message, "1 still have finalizers")
		})
		if f.Status.Version != "v1.4.0" || f.Status.State != v1alpha1.StateTurningOn {
			t.Errorf("in the middle: version %s, %s", f.Status.Version, f.Status.State)
		}
		attempts = f.Status.Tasks[0].Attempts
		ran := i.notes()
		leader, _, _ := strings.Cut(ran[len(ran)-1], " ")
		i.replicas[leader].kill(t)
		i.wait("taken up by another", func(*v1alpha1.Feature) bool { return len(i.notes()) > max(before, len(ran)) })
	}
	r := i.any()
	_, leftovers := r.clients(t)
	if diff := cmp.Diff(map[string]any{"jar-1": "large"}, sizes(t, leftovers)); diff != "" {
		t.Errorf("left in the middle (-want,+got):\n%s", diff)
	}
	if _, err := leftovers.Patch(t.Context(), "jar-1", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	i.settles("v1.5.0")
	r.wantSizes(t, map[string]any{}, map[string]any{})
}

// TestUpgradeIsTakenBack returns to the alpha version while the upgrade waits: nothing is lost.
func TestUpgradeIsTakenBack(t *testing.T) {
	i := install(t, jars.Alpha, false)
	i.any().fill(t, 3)
	i.replaceAll(jars.Beta, false)
	i.wait("refused", refused)
	i.replace("a", jars.Alpha, false)
	i.wait("halted", func(f *v1alpha1.Feature) bool {
		return f.Status.State == v1alpha1.StateTurningOn && f.Status.Tasks[0].State == v1alpha1.TaskPending &&
			strings.Contains(f.Status.Tasks[0].Message, "v1.4.0 (jars-a), v1.5.0 (jars-b, jars-c)")
	})
	before := len(i.notes())
	i.replaceAll(jars.Alpha, false)
	i.settles("v1.4.0")
	i.any().wantSizes(t, large, map[string]any{})
	if ran := i.notes(); len(ran) == before {
		t.Errorf("tasks of an upgrade have begun, and none of the way back has: %v", ran)
	}
}

// TestRollingOneOfThree upgrades one replica of three and takes it back: the Feature stays as it is, and so do the Jars of both
// versions, whoever is killed.
func TestRollingOneOfThree(t *testing.T) {
	i := install(t, jars.Alpha, true)
	i.any().fill(t, 3)
	watcher, err := i.features().FeaturesV1alpha1().Features(i.namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	var made []string
	for round, name := range []string{"first", "second"} {
		i.replace("c", jars.Beta, true)
		f := i.wait("one with two versions", func(f *v1alpha1.Feature) bool { return reason(f, toUpgrade) == "SeveralVersions" })
		for _, kind := range []string{toUpgrade, toDowngrade, v1alpha1.FeatureSettled} {
			c := meta.FindStatusCondition(f.Status.Conditions, kind)
			if c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "v1.4.0 (jars-a, jars-b), v1.5.0 (jars-c)") {
				t.Errorf("%s is %s: %s", kind, c.Status, c.Message)
			}
		}
		own, leftovers := i.replicas["c"].clients(t)
		resource, _ := jars.Beta.Resource()
		if _, err := own.Create(t.Context(), jar(resource.GroupVersion().String(), name, int64(round)), metav1.CreateOptions{}); err != nil {
			t.Errorf("a jar of the version that rolls out: %v", err)
		}
		made = append(made, name)
		if diff := cmp.Diff(large, sizes(t, leftovers)); diff != "" {
			t.Errorf("the others' jars (-want,+got):\n%s", diff)
		}
		// Long enough for a replica to count as having seen all others.
		i.holds(2 * time.Second)
		if round == 0 {
			i.replicas["c"].kill(t)
		}
		i.replace("c", jars.Alpha, true)
		i.settles("v1.4.0")
	}
	_, leftovers := i.replicas["c"].clients(t)
	if got := sizes(t, leftovers); len(got) != len(made) {
		t.Errorf("jars of the version that was taken back: %v, want %v", got, made)
	}
	i.any().wantSizes(t, large, sizes(t, leftovers))
	if ran := i.notes(); len(ran) > 0 {
		t.Errorf("tasks ran: %v", ran)
	}
	last := i.settles("v1.4.0").ResourceVersion
	for seen, end := 0, time.After(30*time.Second); ; seen++ {
		select {
		case <-end:
			t.Fatalf("the watch of the Feature did not come to %s", last)
		case event := <-watcher.ResultChan():
			f, ok := event.Object.(*v1alpha1.Feature)
			if !ok || event.Type == watch.Deleted || f.Status.State != v1alpha1.StateOn || f.Status.Version != "v1.4.0" || len(f.Status.Tasks) > 0 {
				t.Fatalf("event %s: %+v", event.Type, event.Object)
			}
			if f.ResourceVersion != last {
				continue
			}
			if seen < 4 {
				t.Errorf("saw %d changes of the Feature, want its conditions to have changed each time", seen)
			}
			return
		}
	}
}

// holds lets time pass while engines work.
func (i *installation) holds(d time.Duration) {
	ctx, stop := context.WithTimeout(i.t.Context(), d)
	defer stop()
	<-ctx.Done()
}
