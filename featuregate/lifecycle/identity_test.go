// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
)

// TestAProcessThatStartedLaterKeepsTheLease has another process of the same instance take the Lease.
func TestAProcessThatStartedLaterKeepsTheLease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		held, live bool
		holder     string
		fails      bool
	}{
		"a former process, expired":   {false, false, "other", false},
		"a former process, live":      {false, true, "other", false},
		"a later process, expired":    {true, false, "other", false},
		"a later process, live":       {true, true, "other", true},
		"this process, edited by one": {true, true, "", false},
	} {
		o := goodOptions()
		engine, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		leases := kubernetesfake.NewClientset().CoordinationV1().Leases("ns")
		engine.leases = leases
		l := engine.newIdentity("{}")
		if tc.held {
			if err := l.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := leases.Delete(t.Context(), l.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := l.Renew(t.Context()); err == nil {
				t.Fatal("a Lease that is gone was updated")
			}
		}
		holder := tc.holder
		if holder == "" {
			holder = l.Holder
		}
		theirs, err := leases.Create(t.Context(), lease(l.Name, holder, time.Now()), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if tc.live {
			engine.replicaLeases.OnAdd(theirs, false)
		}
		if err := l.Renew(t.Context()); (err != nil) != tc.fails {
			t.Errorf("%s: error %v, want one %t", name, err, tc.fails)
		}
		stored, err := leases.Get(t.Context(), l.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if tookOver := *stored.Spec.HolderIdentity == l.Holder; tookOver == tc.fails {
			t.Errorf("%s: the holder is %s", name, *stored.Spec.HolderIdentity)
		}
	}
}

// TestTheLeaseNameTellsNamespacesApart keeps two engines of a process from sharing a Lease in annex-system.
func TestTheLeaseNameTellsNamespacesApart(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"": "c-i-lifecycle", "n": "c-i-lifecycle", "annex-system": "c-i-n-lifecycle"} {
		o := Options{Component: "c", Instance: "i", Namespace: "n", LeaseNamespace: in}
		if got := o.leaseName(); got != want {
			t.Errorf("in %q the Lease is %s, want %s", in, got, want)
		}
	}
}
