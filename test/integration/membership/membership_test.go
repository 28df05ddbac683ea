// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	apply "github.com/kube-annex/annex/generated/applyconfiguration/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestMembership takes three clusters through what may happen to the members of a set. Each step ends with nobody in a set.
func TestMembership(t *testing.T) {
	t.Parallel()
	f := startFleet(t)
	for _, step := range []struct {
		name string
		run  func(*fleet, *testing.T)
	}{
		{"the hub has got its id", (*fleet).testProvisioning},
		{"one of racing clusters joins", (*fleet).testRace},
		{"every way to join is asked", (*fleet).testVerbs},
		{"a crash between reservation and store", (*fleet).testCrash},
		{"what was never stored is freed", (*fleet).testOrphan},
		{"a member from before the hub", (*fleet).testMemberFromBefore},
		{"the hub is away", (*fleet).testHubAway},
		{"a term leaves nothing behind", (*fleet).testTermEnds},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(f, t) }) {
			return
		}
		framework.Eventually(t, patience, func() error { holders := f.holders(t); return poll.Want(len(holders) == 0, holders) })
	}
}

// wantTaken is the refusal of an id that a user of the hub has.
func wantTaken(t *testing.T, what string, err error, user string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "is taken in the set") || !strings.Contains(err.Error(), user) {
		t.Errorf("%s: got %v, want 422 that names %s", what, err, user)
	} else if cause, ok := apierrors.StatusCause(err, metav1.CauseType(field.ErrorTypeForbidden)); !ok || cause.Field != "spec.value" {
		t.Errorf("%s: the cause is %v, want one at spec.value", what, cause)
	}
}

func (f *fleet) testProvisioning(t *testing.T) {
	hub := &member{Server: f.hub}
	var first *v1alpha1.ClusterClaim
	provisioned := func() (bool, any) {
		claim, err := hub.claims().Get(t.Context(), id, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if first != nil && claim.UID == first.UID {
			return false, "the former claim"
		}
		first = claim
		return meta.IsStatusConditionTrue(claim.Status.Conditions, v1alpha1.ClaimProvisioned), claim.Status
	}
	framework.Eventually(t, patience, func() error { done, last := provisioned(); first = nil; return poll.Want(done, last) })
	claim, err := hub.claims().Get(t.Context(), id, metav1.GetOptions{})
	if err != nil || claim.Spec.Value != string(hub.clusterUID(t)) {
		t.Fatalf("the id is %v, %v; want the uid of kube-system", claim, err)
	}
	if err := hub.claims().Delete(t.Context(), id, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	framework.Eventually(t, patience, func() error {
		again, err := hub.claims().Get(t.Context(), id, metav1.GetOptions{})
		return poll.Want(err == nil && again.UID != claim.UID, err)
	})
}

func (f *fleet) testRace(t *testing.T) {
	members := []*member{f.east, f.west, f.south}
	for _, m := range members {
		m.setID(t, "one")
	}
	for _, m := range members {
		_, err := m.claims().Create(t.Context(), claim(set, "fleet"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			t.Errorf("a dry run on %s: %v", m.user, err)
		}
	}
	if holders := f.holders(t); len(holders) != 0 {
		t.Fatalf("dry runs have reserved %v", holders)
	}
	errs := make([]error, len(members))
	var racing sync.WaitGroup
	for i, m := range members {
		racing.Go(func() { errs[i] = m.create(t, set, "fleet") })
	}
	racing.Wait()
	var winner *member
	for i, m := range members {
		if errs[i] == nil && winner == nil {
			winner = m
		} else if errs[i] == nil {
			t.Fatalf("both %s and %s have joined as one", winner.user, m.user)
		}
	}
	if winner == nil {
		t.Fatalf("nobody has joined: %v", errs)
	}
	var others []*member
	for i, m := range members {
		if m != winner {
			wantTaken(t, m.user, errs[i], winner.user)
			others = append(others, m)
		}
	}
	winner.waitReserved(t, metav1.ConditionTrue, "Reserved")
	if diff := cmp.Diff(map[string]string{"fleet/one": winner.user}, f.holders(t)); diff != "" {
		t.Errorf("reservations (-want,+got):\n%s", diff)
	}
	// The same id in another set, and another id in the same set.
	if err := others[0].create(t, set, "other"); err != nil {
		t.Errorf("the same id in another set: %v", err)
	}
	others[1].setID(t, "two")
	if err := others[1].create(t, set, "fleet"); err != nil {
		t.Errorf("another id in the same set: %v", err)
	}
	// After the first has left its id is free for others.
	others[0].leave(t)
	winner.leave(t)
	others[0].joinSoon(t, "fleet")
	f.waitHolder(t, "fleet/one", others[0].user)
	wantTaken(t, "the former holder", winner.create(t, set, "fleet"), others[0].user)
	for _, m := range others {
		m.leave(t)
	}
}

func (f *fleet) testVerbs(t *testing.T) {
	f.east.setID(t, "one")
	f.west.setID(t, "one")
	if err := f.east.create(t, set, "fleet"); err != nil {
		t.Fatal(err)
	}
	apply := apply.ClusterClaim(set).WithSpec(apply.ClusterClaimSpec().WithValue("fleet"))
	dry := []string{metav1.DryRunAll}
	for name, join := range map[string]func() error{
		"create": func() error { return f.west.create(t, set, "fleet") },
		"dry-run create": func() error {
			_, err := f.west.claims().Create(t.Context(), claim(set, "fleet"), metav1.CreateOptions{DryRun: dry})
			return err
		},
		"apply": func() error {
			_, err := f.west.claims().Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test"})
			return err
		},
		"dry-run apply": func() error {
			_, err := f.west.claims().Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test", DryRun: dry})
			return err
		},
	} {
		wantTaken(t, name, join(), f.east.user)
	}
	// A member does not ask again: all of this works with and without the hub.
	if _, err := f.east.claims().Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Errorf("applying what is there: %v", err)
	}
	f.east.leave(t)
}

func (f *fleet) testCrash(t *testing.T) {
	f.east.setID(t, "one")
	f.west.setID(t, "one")
	f.east.joinAndFail(t, "fleet")
	if holders := f.holders(t); holders["fleet/one"] != f.east.user {
		t.Fatalf("the join that failed has left %v", holders)
	}
	wantTaken(t, "another cluster meanwhile", f.west.create(t, set, "fleet"), f.east.user)
	if err := f.east.create(t, set, "fleet"); err != nil {
		t.Fatalf("joining again: %v", err)
	}
	f.east.waitReserved(t, metav1.ConditionTrue, "Reserved")
	// Leaving and joining at once never lets go of the id, and what was to be freed is not.
	for range 10 {
		f.east.leave(t)
		if err := f.east.create(t, set, "fleet"); err != nil {
			t.Fatalf("joining again at once: %v", err)
		}
	}
	f.east.waitReserved(t, metav1.ConditionTrue, "Reserved")
	wantTaken(t, "another cluster afterwards", f.west.create(t, set, "fleet"), f.east.user)
	f.east.leave(t)
}

func (f *fleet) testOrphan(t *testing.T) {
	f.south.setID(t, "one")
	f.west.setID(t, "one")
	began := time.Now()
	f.south.joinAndFail(t, "fleet")
	wantTaken(t, "another cluster at once", f.west.create(t, set, "fleet"), f.south.user)
	f.west.joinSoon(t, "fleet")
	if took := time.Since(began); took < orphanAfter {
		t.Errorf("the reservation was freed after %s, want %s", took, orphanAfter)
	}
	f.west.leave(t)
}

func (f *fleet) testMemberFromBefore(t *testing.T) {
	kubeconfig := f.south.options.Extension.Hub.Kubeconfig
	f.south.options.Extension.Hub.Kubeconfig = ""
	f.south.Restart(t)
	f.south.setID(t, "one")
	f.east.setID(t, "one")
	if err := f.east.create(t, set, "fleet"); err != nil {
		t.Fatal(err)
	}
	if err := f.south.create(t, set, "fleet"); err != nil {
		t.Fatalf("without a hub nobody is asked: %v", err)
	}
	f.south.options.Extension.Hub.Kubeconfig = kubeconfig
	f.south.Restart(t)
	// Nobody is thrown out, and once the other has left the id is reserved.
	f.south.waitReserved(t, metav1.ConditionFalse, "TakenByAnother")
	f.east.leave(t)
	f.south.waitReserved(t, metav1.ConditionTrue, "Reserved")
	wantTaken(t, "the one that has left", f.east.create(t, set, "fleet"), f.south.user)
	f.south.leave(t)
}

func (f *fleet) testHubAway(t *testing.T) {
	f.east.setID(t, "one")
	f.west.setID(t, "two")
	f.south.setID(t, "three")
	for _, m := range []*member{f.east, f.west} {
		if err := m.create(t, set, "fleet"); err != nil {
			t.Fatal(err)
		}
		m.waitReserved(t, metav1.ConditionTrue, "Reserved")
	}
	f.hub.Stop(t)
	for range 3 {
		err := f.south.create(t, set, "fleet")
		if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "the hub at "+f.hub.Config.Host+" does not answer") {
			t.Errorf("joining: got %v, want 503 that says that the hub is away", err)
		}
	}
	if _, err := f.south.claims().Get(t.Context(), set, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the claim that was refused: %v", err)
	}
	// Members stay, and may leave.
	if _, err := f.east.claims().Patch(t.Context(), set, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("a member: %v", err)
	}
	f.east.waitReserved(t, metav1.ConditionTrue, "Reserved")
	f.west.leave(t)
	f.west.setID(t, "four") // at once

	f.hub.Resume(t)
	f.waitHolder(t, "fleet/two", "") // west's leave is completed
	if diff := cmp.Diff(map[string]string{"fleet/one": f.east.user}, f.holders(t)); diff != "" {
		t.Errorf("reservations (-want,+got):\n%s", diff)
	}
	f.south.joinSoon(t, "fleet")
	f.south.waitReserved(t, metav1.ConditionTrue, "Reserved")
	f.south.leave(t)
	f.east.leave(t)
}

// testTermEnds looks for goroutines of a term that is over. Connections to the host are shared, and marked as such; those to the hub are
// the controllers' own.
func (f *fleet) testTermEnds(t *testing.T) {
	lease, err := f.west.Kubernetes.CoordinationV1().Leases("annex-system").Get(t.Context(), "annex-clusterclaims", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mine := func() (found []string) {
		var profile bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(profile.String(), "\n\n") {
			if strings.Contains(block, fmt.Sprintf(`"leadership_term":%q`, *lease.Spec.HolderIdentity)) && !strings.Contains(block, `"leadership_call"`) {
				found = append(found, block)
			}
		}
		return found
	}
	if len(mine()) == 0 {
		t.Fatal("the term has no goroutines")
	}
	f.west.Stop(t)
	framework.Eventually(t, patience, func() error { left := mine(); return poll.Want(len(left) == 0, left) })
}
