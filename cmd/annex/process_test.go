// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework/syncbuffer"
)

// asAnnex makes the test binary behave as annex itself, so that tests run real processes without building another binary.
const asAnnex = "ANNEX_TEST_RUN_AS_ANNEX"

// patience is how long anything may take on a busy machine.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(asAnnex) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is a running annex.
type process struct {
	command *exec.Cmd
	stdout  syncbuffer.Buffer
	stderr  syncbuffer.Buffer
	ended   chan struct{}
	code    int
}

// startAnnex runs annex in an empty directory of its own. It is killed when the test ends before it.
func startAnnex(t *testing.T, args ...string) *process {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{command: exec.CommandContext(context.Background(), executable, args...), ended: make(chan struct{})}
	p.command.Dir = t.TempDir()
	p.command.Env = append(os.Environ(), asAnnex+"=1", "KUBERNETES_SERVICE_HOST=")
	p.command.Stdout, p.command.Stderr = &p.stdout, &p.stderr
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		var exit *exec.ExitError
		if err := p.command.Wait(); errors.As(err, &exit) {
			p.code = exit.ExitCode()
		} else if err != nil {
			p.code = -1
		}
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	return p
}

// wait returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.code
	case <-time.After(patience):
		t.Fatalf("annex still runs after %s\nstdout:\n%s\nstderr:\n%s", patience, p.stdout.String(), p.stderr.String())
		return 0
	}
}

// waitFor returns once a line of the output matches.
func (p *process) waitFor(t *testing.T, output *syncbuffer.Buffer, pattern string) {
	t.Helper()
	wanted := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !wanted.MatchString(output.String()) {
		select {
		case <-p.ended:
			if wanted.MatchString(output.String()) {
				return
			}
			t.Fatalf("annex ended with code %d before it said %q\nstdout:\n%s\nstderr:\n%s", p.code, pattern, p.stdout.String(), p.stderr.String())
		case <-deadline:
			t.Fatalf("annex did not say %q within %s\nstdout:\n%s\nstderr:\n%s", pattern, patience, p.stdout.String(), p.stderr.String())
		case <-ticker.C:
		}
	}
}

func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// checkOneClearLine checks the promise for every error: one line, which begins with the program's name, and no stack trace.
func checkOneClearLine(t *testing.T, stderr string, wants ...string) {
	t.Helper()
	errorLines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	if len(errorLines) != 1 || !strings.HasPrefix(errorLines[0], "annex: ") {
		t.Errorf("stderr is not one line that begins with annex:\n%s", stderr)
	}
	if strings.Contains(stderr, "goroutine ") {
		t.Errorf("stderr has a stack trace:\n%s", stderr)
	}
	for _, want := range wants {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr does not contain %q:\n%s", want, stderr)
		}
	}
}

func writeFile(t *testing.T, content string, elements ...string) string {
	t.Helper()
	path := filepath.Join(elements...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
