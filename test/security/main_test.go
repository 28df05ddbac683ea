// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/syncbuffer"
)

const (
	startTimeout = 90 * time.Second
	patience     = 30 * time.Second
)

// What most checks are held against: `annex up` as people run it, and as somebody would run it who takes no care.
var plain, careless *annex

// annex is an `annex up` as a process of its own, whose memory, files and sockets can be looked at.
type annex struct {
	command *exec.Cmd
	ended   chan struct{}
	output  *syncbuffer.Buffer

	dataDir string
	// host and extension are where the two servers listen.
	host, extension string
	pki             *pki.Directory
}

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	binary, err := framework.AnnexFor("../..")
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "annex-security-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	policy := filepath.Join(dir, "policy.yaml")
	if err = os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		return 0, err
	}

	before := syscall.Umask(0o022)
	plain, err = launch(binary, filepath.Join(dir, "plain"))
	if err == nil {
		defer plain.kill()
		syscall.Umask(0)
		careless, err = launch(binary, filepath.Join(dir, "careless"), "-v=10",
			"--audit-policy-file", policy, "--audit-log-path", filepath.Join(dir, "careless", "audit.log"), "--audit-log-mode", "blocking")
	}
	syscall.Umask(before)
	if err != nil {
		return 0, err
	}
	defer careless.kill()
	for _, a := range []*annex{plain, careless} {
		if err = a.waitReady(); err != nil {
			return 0, err
		}
	}
	code = m.Run()
	return code, errors.Join(plain.check(), careless.check())
}

// check makes sure that nothing of all that has ended the process, or only not because a panic was caught.
func (a *annex) check() error {
	select {
	case <-a.ended:
		return fmt.Errorf("annex has ended; it said:\n%s", a.output)
	default:
	}
	log, err := os.ReadFile(filepath.Join(a.dataDir, "annex.log"))
	if err != nil {
		return err
	}
	if at := bytes.Index(log, []byte("Observed a panic")); at >= 0 {
		return fmt.Errorf("the log tells of a panic: %s", log[at:min(len(log), at+4000)])
	}
	return nil
}

// launch starts the binary on free ports.
func launch(binary, dataDir string, args ...string) (*annex, error) {
	a := &annex{dataDir: dataDir, ended: make(chan struct{}), output: &syncbuffer.Buffer{}}
	a.command = exec.Command(binary, append([]string{"up", "--data-dir", dataDir, "--secure-port", "0", "--extension-port", "0"}, args...)...)
	a.command.Stdout, a.command.Stderr = a.output, a.output
	if err := a.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	go func() {
		defer close(a.ended)
		_ = a.command.Wait()
	}()
	return a, nil
}

func (a *annex) kill() {
	_ = a.command.Process.Kill()
	<-a.ended
}

func (a *annex) pid() int { return a.command.Process.Pid }

var whereReady = regexp.MustCompile(`ready in .* at https://(\S+)\n(?s:.*)export KUBECONFIG=`)

// waitReady returns when it is known where both servers listen.
func (a *annex) waitReady() error {
	deadline := time.After(startTimeout)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		if found := whereReady.FindStringSubmatch(a.output.String()); found != nil {
			a.host = found[1]
			break
		}
		select {
		case <-ticker.C:
		case <-a.ended:
			return fmt.Errorf("annex ended before it was ready; it said:\n%s", a.output)
		case <-deadline:
			return fmt.Errorf("annex was not ready within %s; it said:\n%s", startTimeout, a.output)
		}
	}
	sockets, err := listeners(a.pid())
	if err != nil {
		return err
	}
	for _, socket := range sockets {
		if address, ok := strings.CutPrefix(socket, "tcp "); ok && address != a.host {
			a.extension = address
		}
	}
	if a.extension == "" {
		return fmt.Errorf("the extension apiserver's port is not among %v", sockets)
	}
	a.pki, err = pki.Open(filepath.Join(a.dataDir, "pki"))
	return err
}
