// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestControllersWorkWithTheirRights runs two `annex controllers` with the rights that `annex register` gives, and no others.
func TestControllersWorkWithTheirRights(t *testing.T) {
	unregisterAtEnd(t)
	a := startAnnex(t)
	kubeconfig, err := host.Identity(user)
	if err != nil {
		t.Fatal(err)
	}
	var replicas []*cluster.Process
	for i := range 2 {
		logFile := filepath.Join(t.TempDir(), fmt.Sprintf("controllers-%d.log", i))
		replica, err := cluster.StartProcess("controllers", logFile, framework.Annex(t, root), "controllers", "--kubeconfig="+kubeconfig, "--secure-port=0")
		if err != nil {
			t.Fatal(err)
		}
		replicas = append(replicas, replica)
		t.Cleanup(func() {
			_ = replica.Stop()
			if t.Failed() {
				t.Logf("the end of the controllers' log:\n%s", replica.Tail(50))
			}
		})
	}
	leases := host.Kubernetes.CoordinationV1().Leases("annex-system")
	poll.Eventually(t, patience, "both replicas are members and reporters, and one holds the Lease", func(ctx context.Context) error {
		list, err := leases.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		members, reporters := 0, 0
		for i := range list.Items {
			switch lease := &list.Items[i]; {
			case lease.Labels["features.k8s.io/component"] == "annex-controllers":
				reporters++
			case strings.HasPrefix(lease.Name, "annex-controllers-"):
				members++
			}
		}
		if members != 2 || reporters != 2 {
			return fmt.Errorf("there are Leases of %d members and of %d reporters, want two of each", members, reporters)
		}
		lease, err := leases.Get(ctx, "annex-observer", metav1.GetOptions{})
		if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			return fmt.Errorf("the Lease is %v (%v)", lease, err) //nolint:errorlint // err may be nil
		}
		return nil
	})
	poll.Eventually(t, patience, "what they use of Annex's own gates is reported", func(ctx context.Context) error {
		feature, err := a.client.FeaturesV1alpha1().Features("annex-system").Get(ctx, "GracefulLeaderTransition", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(feature.Status.Uses) != 1 || feature.Status.Uses[0].Component != "annex-controllers" || feature.Status.Uses[0].Value != v1alpha1.ValueEnabled {
			return fmt.Errorf("the uses are %+v, want one of annex-controllers, which see it on", feature.Status.Uses)
		}
		return nil
	})
	poll.Eventually(t, patience, "a gate of the host is observed", func(ctx context.Context) error {
		feature, err := a.client.FeaturesV1alpha1().Features("kube-system").Get(ctx, changedGate, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if feature.Status.Source != v1alpha1.SourceObserved {
			return fmt.Errorf("the source is %q", feature.Status.Source)
		}
		return nil
	})
	idIsProvisioned(t, a)
	for _, replica := range replicas {
		if err := replica.Stop(); err != nil {
			t.Error(err)
		}
	}
	lease, err := leases.Get(t.Context(), "annex-observer", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("the Lease is still held by %s", holder)
	}
}
