// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
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

	first.Kill()
	second := startMinimal(t, binary, dir)
	kubectl.Want(t, `milk\s+buy some`, "get", "notes")
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
}

// startMinimal returns when the program is ready.
func startMinimal(t *testing.T, binary, dir string) *cluster.Process {
	t.Helper()
	p := framework.StartProgram(t, "", binary, "-data-dir", dir, "-port", "0")
	if err := p.AwaitLog(t.Context(), time.Minute, "ready: kubectl"); err != nil {
		t.Fatal(err)
	}
	return p
}
