// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var leader = types.NamespacedName{Namespace: "annex-system", Name: "leader"}

func TestWhatIsSentIsRead(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]Term{
		"annex-system/leader;uid;0;host_1_1": {Lease: leader, LeaseUID: "uid", Holder: "host_1_1"},
		"annex-system/leader;uid;12;a;b;c":   {Lease: leader, LeaseUID: "uid", Transitions: 12, Holder: "a;b;c"},
	} {
		got, err := Parse(header)
		if err != nil {
			t.Errorf("%s: %v", header, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", header, diff)
		}
		if got.String() != header {
			t.Errorf("%s is sent as %s", header, got)
		}
		stored, err := ParseValue(leader, got.Value())
		if err != nil || stored != want {
			t.Errorf("what is compared for %s is read as %+v (%v)", header, stored, err)
		}
	}
}

func TestMalformedHeadersAreNamed(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		"", "x", "annex-system/leader", "annex-system/leader;uid;1", "annex-system/leader;uid;1;", "annex-system/leader;;1;one",
		"leader;uid;1;one", "/leader;uid;1;one", "annex-system/;uid;1;one", "annex-system/a/b;uid;1;one", "../leader;uid;1;one",
		"annex-system/..;uid;1;one", "annex-system/a%2fb;uid;1;one", "annex-system/leader;uid;-1;one", "annex-system/leader;uid;x;one",
		"annex-system/leader;uid;4294967296;one", "annex-system/leader;uid;1;" + strings.Repeat("x", 2000),
	} {
		_, err := Parse(header)
		if err == nil || !strings.Contains(err.Error(), "namespace/lease;uid;transitions;holder") || len(err.Error()) > 300 {
			t.Errorf("%.80q: got %v, want a short error that tells the form", header, err)
		}
	}
}

func TestTheTermOfALease(t *testing.T) {
	t.Parallel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "annex-system", Name: "leader", UID: "uid"}}
	if got, want := Current(lease).Value(), "uid;0;"; got != want {
		t.Errorf("a Lease that nobody holds: got %q, want %q", got, want)
	}
	holder, transitions := "one", int32(3)
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions}
	if got, want := Current(lease).String(), "annex-system/leader;uid;3;one"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	term := Term{Lease: leader, LeaseUID: "uid", Transitions: 1, Holder: "one"}
	for name, tc := range map[string]struct {
		now  *Term
		want string
	}{
		"gone":      {nil, "the Lease is gone"},
		"free":      {&Term{LeaseUID: "uid", Transitions: 1}, "nobody holds the Lease now"},
		"passed on": {&Term{LeaseUID: "uid", Transitions: 2, Holder: "two"}, "two holds the Lease now, after 2 transitions"},
		// Who does not know the Lease learns nothing of it.
		"another Lease": {&Term{LeaseUID: "other", Transitions: 2, Holder: "two"}, "the Lease was deleted and made anew since"},
	} {
		err := term.Refuse(tc.now)
		want := "the term of Lease annex-system/leader held by one, after 1 transitions, is over: " + tc.want + "; the write was refused"
		if err.Error() != want || !apierrors.IsForbidden(err) || !IsTermOver(fmt.Errorf("writing: %w", err)) {
			t.Errorf("%s: got %v, want a 403: %s", name, err, want)
		}
	}
	for _, err := range []error{nil, fmt.Errorf("other"), apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", nil)} {
		if IsTermOver(err) {
			t.Errorf("%v is taken for a term that is over", err)
		}
	}
}
