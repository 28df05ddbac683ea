// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/kube-annex/annex/featuregate"
	registry "github.com/kube-annex/annex/registry/features"
)

// TestAReportStandsForProcessesOfItsUserAlone has two users report, and end, a process of the same name.
func TestAReportStandsForProcessesOfItsUserAlone(t *testing.T) {
	t.Parallel()
	leases := fake.NewClientset().CoordinationV1()
	signs := NewReporters(leases)
	found := func() map[string]string {
		t.Helper()
		list, err := leases.Leases(featuregate.LeaseNamespace).List(t.Context(), metav1.ListOptions{LabelSelector: featuregate.LabelNamespace + "=frob-system"})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, lease := range list.Items {
			out[lease.Annotations[featuregate.AnnotationUser]+" "+*lease.Spec.HolderIdentity] = lease.Annotations[featuregate.AnnotationObserved]
		}
		return out
	}
	process := registry.Reporter{Namespace: "frob-system", Component: "Frobber!", Version: "v1+a", Instance: "pod-1", User: "frobber"}
	mallory := process
	mallory.User = "mallory"
	renew := func(r registry.Reporter, observed string) {
		t.Helper()
		r.Observed = observed
		if err := signs.Renew(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	renew(process, "5")
	renew(mallory, "99")
	if err := signs.Remove(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	renew(mallory, "99")
	if diff := cmp.Diff(map[string]string{"frobber pod-1": "5", "mallory pod-1": "99"}, found()); diff != "" {
		t.Errorf("what processes have observed (-want,+got):\n%s", diff)
	}
	// A process that was started anew has observed nothing.
	renew(process, "")
	if err := signs.Remove(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	if err := signs.Remove(t.Context(), mallory); err != nil {
		t.Errorf("the end of a process that is not known: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"frobber pod-1": ""}, found()); diff != "" {
		t.Errorf("after a restart and an end (-want,+got):\n%s", diff)
	}
}
