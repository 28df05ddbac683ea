// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/harness"
	"github.com/kube-annex/annex/test/syncbuffer"
)

// copyOf is a running copy of the example, and what it says.
type copyOf struct {
	syncbuffer.Buffer
	command *exec.Cmd
}

// TestLeaderElectedControllerExample runs two copies and kills the one that leads.
func TestLeaderElectedControllerExample(t *testing.T) {
	t.Parallel()
	binary := harness.Example(t, root, "leader-elected-controller")
	server := harness.Start(t)
	claims := server.Annex.MulticlusterV1alpha1().ClusterClaims()
	claim := &multiclusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: "id.k8s.io"}, Spec: multiclusterv1alpha1.ClusterClaimSpec{Value: "one"}}
	if _, err := claims.Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	copies := []*copyOf{startCopy(t, binary, server.Kubeconfig), startCopy(t, binary, server.Kubeconfig)}

	first := waitForID(t, server, copies, "one", "")
	var leader, follower *copyOf
	for i, c := range copies {
		if strings.Contains(c.String(), first) {
			leader, follower = c, copies[1-i]
		}
	}
	if leader == nil || strings.Contains(follower.String(), "Acquired the Lease") {
		t.Fatalf("the ConfigMap was written by %s, but the copies said:\n%s\nand:\n%s", first, copies[0].String(), copies[1].String())
	}
	if err := leader.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	second := waitForID(t, server, copies, "one", first)
	if !strings.Contains(follower.String(), second) {
		t.Errorf("the ConfigMap was written by %s, but the remaining copy said:\n%s", second, follower.String())
	}
	// The Lease lasts 3 s; the rest is for a busy machine.
	if took := time.Since(killed); took > 10*time.Second {
		t.Errorf("the other copy took over after %s, want soon after the Lease has run out after 3s", took)
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
func waitForID(t *testing.T, server *harness.Server, copies []*copyOf, id, former string) string {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(time.Minute)
	for {
		configMap, err := server.Kubernetes.CoreV1().ConfigMaps("default").Get(t.Context(), "cluster-id", metav1.GetOptions{})
		if writer := configMap.Data["writtenBy"]; err == nil && configMap.Data["id"] == id && writer != former {
			return writer
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("the ConfigMap is %v (%v), want id %s from another writer than %q; the copies said:\n%s\nand:\n%s",
				configMap.Data, err, id, former, copies[0].String(), copies[1].String())
		}
	}
}

func startCopy(t *testing.T, binary, kubeconfig string) *copyOf {
	t.Helper()
	c := &copyOf{command: exec.Command(binary,
		"--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms")}
	c.command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	c.command.Stdout, c.command.Stderr = c, c
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.command.Process.Kill()
		_ = c.command.Wait()
	})
	return c
}
