// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"

	"github.com/kube-annex/annex/test/framework"
)

// TestKubeconfigOfAUser makes a kubeconfig with the command, over a file that others could read, and uses it with kubectl.
func TestKubeconfigOfAUser(t *testing.T) {
	t.Parallel()
	server := framework.SharedServer()
	file := filepath.Join(t.TempDir(), "jane.kubeconfig")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), framework.Annex(t, root),
		"kubeconfig", "--kubeconfig", server.Kubeconfig, "--user=jane", "--group=developers", "--group=testers", "--expiration=1h", "-o", file)
	if out, err := command.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("annex kubeconfig: %v\n%s", err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is open to others: %v, %v", info.Mode(), err)
	}
	jane := framework.NewKubectl(t, root, file)
	jane.Want(t, `jane\s`, "auth", "whoami")
	jane.Want(t, `(developers testers|testers developers) system:authenticated`, "auth", "whoami", "-o", `jsonpath={.status.userInfo.groups[*]}`)
	jane.WantError(t, `forbidden: User "jane" cannot list resource "secrets"`, "get", "secrets", "-n", "default")
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := cert.ParseCertsPEM(config.CertData)
	if err != nil {
		t.Fatal(err)
	}
	issued := chain[0]
	if life := issued.NotAfter.Sub(issued.NotBefore); life < time.Hour || life > time.Hour+5*time.Minute {
		t.Errorf("the certificate is valid for %s, want an hour and no more than 5 minutes before now", life)
	}
	if !slices.Equal(issued.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) || issued.IsCA {
		t.Errorf("the certificate is for %v, authority %t; want client authentication only", issued.ExtKeyUsage, issued.IsCA)
	}
	framework.NewKubectl(t, root, server.Kubeconfig).Want(t, `kubernetes.io/kube-apiserver-client\s+annex-admin\s+60m\s+Approved,Issued`, "get", "csr")
}
