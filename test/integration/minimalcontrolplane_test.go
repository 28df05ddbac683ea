// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

const noteManifest = "apiVersion: notes.example.com/v1\nkind: Note\nmetadata: {name: milk, namespace: default}\ntext: %\n"

// TestMinimalControlPlaneExample runs the program, uses its kind as any other, kills the program and runs it again.
func TestMinimalControlPlaneExample(t *testing.T) {
	t.Parallel()
	binary := framework.Example(t, root, "minimal-controlplane")
	dir := filepath.Join(t.TempDir(), "data")
	manifest := func(text string) string {
		file := filepath.Join(t.TempDir(), "note.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(noteManifest, "%", text, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	kubectl := framework.NewKubectl(t, root, filepath.Join(dir, "kubeconfig"))
	first := startMinimal(t, binary, dir)
	kubectl.Want(t, `note.notes.example.com/milk serverside-applied`, "apply", "--server-side", "-f", manifest("buy some"))
	kubectl.WantError(t, `text: Required value: say what to remember`, "apply", "--server-side", "-f", manifest(`""`))
	kubectl.Want(t, `milk\s+buy some`, "get", "notes")
	kubectl.Want(t, `Text is what to remember`, "explain", "note.text")
	kubectl.Want(t, `created`, "create", "role", "reader", "--verb=get", "--resource=notes.notes.example.com", "-n", "default")
	kubectl.Want(t, `created`, "create", "rolebinding", "reader", "--role=reader", "--user=jane", "-n", "default")
	kubectl.WantEventually(t, `yes`, "auth", "can-i", "get", "notes.notes.example.com", "--as=jane", "-n", "default")
	kubectl.WantError(t, `doesn't have a resource type "apiservices"`, "get", "apiservices")

	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // it was killed
	second := startMinimal(t, binary, dir)
	kubectl.Want(t, `milk\s+buy some`, "get", "notes")
	if err := second.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := second.Wait(); err != nil {
		t.Errorf("told to stop: %v", err)
	}
}

// startMinimal returns when the program says that it is ready.
func startMinimal(t *testing.T, binary, dir string) *exec.Cmd {
	t.Helper()
	c := &copyOf{command: exec.Command(binary, "-data-dir", dir, "-port", "0")}
	c.command.Stdout, c.command.Stderr = c, c
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.command.ProcessState == nil {
			_ = c.command.Process.Kill()
			_ = c.command.Wait()
		}
	})
	poll.Eventually(t, time.Minute, "the program is ready", func(context.Context) error {
		return poll.Want(strings.Contains(c.String(), "ready: kubectl"), c.String())
	})
	return c.command
}
