// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kube-annex/annex/test/harness"
)

// TestKubeconfigOfAUser makes a kubeconfig with the command, over a file that others could read, and uses it with kubectl.
func TestKubeconfigOfAUser(t *testing.T) {
	t.Parallel()
	server := harness.Start(t)
	file := filepath.Join(t.TempDir(), "jane.kubeconfig")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), harness.Annex(t, root),
		"kubeconfig", "--kubeconfig", server.Kubeconfig, "--user=jane", "--group=developers", "--group=testers", "--expiration=1h", "-o", file)
	if out, err := command.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("annex kubeconfig: %v\n%s", err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is open to others: %v, %v", info.Mode(), err)
	}
	jane := harness.NewKubectl(t, root, file)
	jane.Want(t, `jane\s`, "auth", "whoami")
	jane.Want(t, `(developers testers|testers developers) system:authenticated`, "auth", "whoami", "-o", `jsonpath={.status.userInfo.groups[*]}`)
	jane.WantError(t, `forbidden: User "jane" cannot list resource "secrets"`, "get", "secrets", "-n", "default")
	harness.NewKubectl(t, root, server.Kubeconfig).Want(t, `kubernetes.io/kube-apiserver-client\s+annex-admin\s+60m\s+Approved,Issued`, "get", "csr")
}
