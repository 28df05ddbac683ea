// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/test/framework/cluster"
)

// StartProgram runs a program with a kubeconfig, and kills it when the test ends.
func StartProgram(t testing.TB, kubeconfig, binary string, args ...string) *cluster.Process {
	t.Helper()
	name := filepath.Base(binary)
	p, err := cluster.StartProcess(name, filepath.Join(t.TempDir(), name+".log"), "env", append([]string{"KUBECONFIG=" + kubeconfig, binary}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// Process is `annex up` as a child process, for tests that kill it.
type Process struct {
	*cluster.Process
	dataDir string
}

// StartProcess runs the binary on the data directory with free ports until the test ends, and waits until it is ready.
func StartProcess(t testing.TB, binary, dataDir string, args ...string) *Process {
	t.Helper()
	args = append([]string{"up", "--data-dir", dataDir, "--secure-port", "0", "--extension-port", "0"}, args...)
	p := &Process{StartProgram(t, "", binary, args...), dataDir}
	if err := p.AwaitLog(t.Context(), startTimeout, "export KUBECONFIG="); err != nil {
		t.Fatal(err)
	}
	return p
}

// Kubeconfig is the file that the process tells its user to export.
func (p *Process) Kubeconfig() string { return filepath.Join(p.dataDir, "kubeconfig") }

// Config reaches the process with all rights.
func (p *Process) Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return config
}
