// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/test/framework/syncbuffer"
)

// Process is `annex up` as a child process, for tests that kill it.
type Process struct {
	command *exec.Cmd
	dataDir string
	output  *syncbuffer.Buffer
	done    chan struct{}
	waitErr error
}

// StartProcess runs the binary on the data directory with free ports, and waits until it says that it is ready. The process
// is killed when the test ends.
func StartProcess(t testing.TB, binary, dataDir string, args ...string) *Process {
	t.Helper()
	p := &Process{dataDir: dataDir, output: &syncbuffer.Buffer{}, done: make(chan struct{})}
	p.command = exec.Command(binary, append([]string{"up", "--data-dir", dataDir, "--secure-port", "0", "--extension-port", "0"}, args...)...)
	p.command.Stdout, p.command.Stderr = p.output, p.output
	if err := p.command.Start(); err != nil {
		t.Fatalf("starting %s: %v", binary, err)
	}
	go func() {
		defer close(p.done)
		p.waitErr = p.command.Wait()
	}()
	t.Cleanup(func() { p.Kill(t) })
	deadline := time.After(startTimeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if strings.Contains(p.Output(), "export KUBECONFIG=") {
				return p
			}
		case <-p.done:
			t.Fatalf("annex ended before it was ready: %v; it said:\n%s", p.waitErr, p.Output())
		case <-deadline:
			t.Fatalf("annex was not ready within %s; it said:\n%s", startTimeout, p.Output())
		}
	}
}

// Output is what the process wrote so far.
func (p *Process) Output() string { return p.output.String() }

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

// Kill ends the process with SIGKILL and waits for it; a process that has ended is left alone.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("killing annex: %v", err)
	}
	<-p.done
}

// Interrupt ends the process as Ctrl-C does, waits, and returns how it ended.
func (p *Process) Interrupt(t testing.TB) error {
	t.Helper()
	if err := p.command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("interrupting annex: %v", err)
	}
	select {
	case <-p.done:
		return p.waitErr
	case <-time.After(startTimeout):
		t.Fatalf("annex did not stop within %s; it said:\n%s", startTimeout, p.Output())
		return nil
	}
}
