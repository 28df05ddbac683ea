// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// Annex builds the annex binary once in a test process. root is the repository as seen from the test's directory.
func Annex(t testing.TB, root string) string {
	t.Helper()
	return build(t, "annex", root, "./cmd/annex")
}

// AnnexFor is Annex before there is a test, as in TestMain.
func AnnexFor(root string) (string, error) { return buildInto("annex", root, "./cmd/annex") }

// Build builds another program of the repository once in a test process. The flags, such as -tags, are for `go build`; with
// -C first, target is in another module.
func Build(t testing.TB, name, root, target string, flags ...string) string {
	t.Helper()
	for _, flag := range flags {
		// A flag may name a file.
		name += filepath.Base(flag)
	}
	return build(t, name, root, target, flags...)
}

// Example builds a program of artifacts/examples once in a test process. root is as for Annex.
func Example(t testing.TB, root, name string) string {
	t.Helper()
	return build(t, name, root, "./artifacts/examples/"+name)
}

var (
	buildMu sync.Mutex
	built   = map[string]string{}
)

// build compiles a command into bin/test of the repository. Go's build cache makes that quick when nothing has changed.
func build(t testing.TB, name, root, target string, flags ...string) string {
	t.Helper()
	buildMu.Lock()
	defer buildMu.Unlock()
	if path, ok := built[name]; ok {
		return path
	}
	path, err := buildInto(name, root, target, flags...)
	if err != nil {
		t.Fatal(err)
	}
	built[name] = path
	return path
}

func buildInto(name, root, target string, flags ...string) (string, error) {
	// Each checkout has its own binaries: tests of two run at the same time.
	bin, err := filepath.Abs(filepath.Join(root, "bin", "test"))
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	if err = os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	// Test processes of several packages may build at the same time. Go leaves a binary alone that is up to date.
	lock, err := os.OpenFile(filepath.Join(bin, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	path := filepath.Join(bin, name)
	command := exec.Command("go", slices.Concat([]string{"build"}, flags, []string{"-o", path, target})...)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, output)
	}
	return path, nil
}
