// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/framework/sharedtests"
)

// etcdLosesItsLeader keeps the objects in an etcd of three members, of which the leader dies.
func etcdLosesItsLeader(t *testing.T) {
	etcd, err := cluster.StartEtcd(t.Context(), host.Bin(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	// Without a data directory annex keeps the authorities of its certificates in the Secret that it shares with its replicas.
	a := registerAnnex(t, "--etcd-servers="+etcd.Servers(), ownCertificates)
	a.start(t)
	a.waitAvailable(t)
	created := sharedtests.Examples(t, root, host.Config)

	claims := a.client.MulticlusterV1alpha1().ClusterClaims()
	write := func(ctx context.Context, phase string, n int) error {
		_, err := claims.Create(ctx, claim(fmt.Sprintf("%s-%d.example.com", phase, n), phase), metav1.CreateOptions{})
		return err
	}
	for i := range 20 {
		if err := write(t.Context(), "three-members", i); err != nil {
			t.Fatal(err)
		}
	}
	leader, err := etcd.Leader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	etcd.Member(leader).Kill()
	attempt := 0
	poll.Eventually(t, patience, "two members of three take a write", func(ctx context.Context) error {
		attempt++
		return write(ctx, "change", attempt)
	})
	for i := range 20 {
		if err := write(t.Context(), "two-members", i); err != nil {
			t.Errorf("write %d with two members of three: %v", i, err)
		}
	}

	a.stop(t)
	a.start(t)
	a.waitAvailable(t)
	sharedtests.Stored(t, host.Config, created)
	stored, err := claims.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, claim := range stored.Items {
		count[claim.Spec.Value]++
	}
	if count["three-members"] != 20 || count["two-members"] != 20 {
		t.Errorf("stored claims by value: %v, want 20 each of three-members and two-members", count)
	}
}
