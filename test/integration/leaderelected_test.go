// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestLeaderElectedControllerExample runs two copies and kills the one that leads.
func TestLeaderElectedControllerExample(t *testing.T) {
	t.Parallel()
	binary := framework.Example(t, root, "leader-elected-controller")
	server := framework.Start(t)
	claims := server.Annex.MulticlusterV1alpha1().ClusterClaims()
	claim := &multiclusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "id.k8s.io"}, Spec: multiclusterv1alpha1.ClusterClaimSpec{Value: "one"}}
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	copies := []*cluster.Process{startCopy(t, binary, server.Kubeconfig), startCopy(t, binary, server.Kubeconfig)}

	first := waitForID(t, server, copies, "one", "")
	var leader, follower *cluster.Process
	for i, c := range copies {
		if strings.Contains(c.Log(), first) {
			leader, follower = c, copies[1-i]
		}
	}
	if leader == nil || strings.Contains(follower.Log(), "Acquired the Lease") {
		t.Fatalf("the ConfigMap was written by %s, but the copies said:\n%s\nand:\n%s", first, copies[0].Log(), copies[1].Log())
	}
	leader.Kill()
	second := waitForID(t, server, copies, "one", first)
	if !strings.Contains(follower.Log(), second) {
		t.Errorf("the ConfigMap was written by %s, but the remaining copy said:\n%s", second, follower.Log())
	}

	// The new leader goes on working.
	if err := claims.Delete(t.Context(), "id.k8s.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Spec.Value = "two"
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForID(t, server, copies, "two", first)
}

// waitForID waits until the ConfigMap has the id from another writer than the former one, and returns the writer.
func waitForID(t *testing.T, server *framework.Server, copies []*cluster.Process, id, former string) (writer string) {
	t.Helper()
	poll.Eventually(t, time.Minute, "the ConfigMap has id "+id+" from another writer than "+former, func(ctx context.Context) error {
		configMap, err := server.Kubernetes.CoreV1().ConfigMaps("default").Get(ctx, "cluster-id", metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%w; the copies said:\n%s\nand:\n%s", err, copies[0].Log(), copies[1].Log())
		}
		writer = configMap.Data["writtenBy"]
		return poll.Want(configMap.Data["id"] == id && writer != former, configMap.Data)
	})
	return writer
}

func startCopy(t *testing.T, binary, kubeconfig string) *cluster.Process {
	t.Helper()
	return framework.StartProgram(t, kubeconfig, binary,
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")
}
