// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedtests

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework"
)

// Kubectl goes through all that a user does with kubectl, beginning and ending without objects.
func Kubectl(t *testing.T, root, kubeconfig string) {
	t.Helper()
	k := framework.NewKubectl(t, root, kubeconfig)
	for _, name := range []string{"v1alpha1.features.k8s.io", "v1alpha1.multicluster.k8s.io", "v1alpha1.node.k8s.io"} {
		k.Want(t, regexp.QuoteMeta(name)+`\s+annex-system/annex-apiserver\s+True`, "get", "apiservices")
	}
	k.Want(t, `id\.k8s\.io created`, "apply", "-f", "artifacts/examples/own-id/")
	k.Want(t, `clusterset\.k8s\.io created`, "apply", "-f", "artifacts/examples/")
	k.Want(t, `clusterset\.k8s\.io unchanged`, "apply", "-f", "artifacts/examples/")
	k.Want(t, `^NAMESPACE\s+NAME\s+STATE\s+STABILITY\s+DEFAULT\s+SOURCE\s+USES\s+TASK\s+AGE`, "get", "features", "-A")
	k.Want(t, `VERSION\s+SAFE-TO-UPGRADE`, "get", "feat", "-A", "-o", "wide")
	k.Want(t, `^id\.k8s\.io\s+cluster-1\s+\d+s$`, "get", "clusterclaims")
	k.Want(t, `^worker-1\s+.*Pending\s+\d+s$`, "get", "nb")
	k.Want(t, `^\s+value: fleet\.example\.com$`, "get", "cc", "clusterset.k8s.io", "-o", "yaml")
	k.WantEventually(t, `message says for people`, "explain", "feature.status.tasks")
	k.WantEventually(t, `nodeSize`, "explain", "nb.spec", "--recursive")
	k.WantEventually(t, `"TurningOn"`+"`"+` means`, "explain", "feature.status.state", "--output=plaintext-openapiv2")

	for range 2 {
		k.Run(t, "apply", "--server-side", "--force-conflicts", "-f", "artifacts/examples/")
	}
	versions := func() string {
		all := k.Run(t, "get", "features,clusterclaims,nodeballoons,clusteridreservations", "-A", "-o",
			"jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.metadata.resourceVersion}{'\\n'}{end}")
		// A server that has just started is still on its way to the states of its own features.
		return regexp.MustCompile(`(?m)^annex-system/.*\n`).ReplaceAllString(all, "")
	}
	before := versions()
	k.Run(t, "apply", "--server-side", "-f", "artifacts/examples/")
	if after := versions(); before != after {
		t.Errorf("a repeated server-side apply moved resourceVersions from\n%s to\n%s", before, after)
	}

	k.Want(t, `patched`, "patch", "feature", "NodeSwap", "-n", "kube-system", "--subresource=status", "--type=merge", "-p", `{"status":{"state":"On","stability":"Beta"}}`)
	k.Want(t, `^NodeSwap\s+On\s+Beta`, "get", "feature", "NodeSwap", "-n", "kube-system")
	k.Want(t, `^NodeSwap\s+On`, "get", "features", "-n", "kube-system", "--field-selector", "status.state=On")
	k.WantError(t, `leave the set first`, "patch", "cc", "id.k8s.io", "--type=merge", "-p", `{"spec":{"value":"other"}}`)
	k.WantError(t, `leave the set first`, "delete", "cc", "id.k8s.io")
	k.WantError(t, `dynamic-features=kube-system/NodeSwap`, "patch", "feature", "NodeSwap", "-n", "kube-system", "--type=merge", "-p", `{"spec":{"desired":"Enabled"}}`)
	checkEdit(t, k)
	checkWatchPrints(t, k)

	k.Want(t, `created`, "create", "-f", "artifacts/examples/create-only/")
	k.Want(t, `deleted`, "delete", "cc", "clusterset.k8s.io")
	k.Want(t, `Warning: id\.k8s\.io should live`, "delete", "cc", "id.k8s.io")
	k.Want(t, `deleted`, "delete", "-f", "artifacts/examples/", "--ignore-not-found")
	k.Want(t, `No resources found`, "get", "clusterclaims")
}

// checkEdit edits a claim into something invalid and then gives up: kubectl shows the error in the file and stores nothing.
func checkEdit(t *testing.T, k *framework.Kubectl) {
	t.Helper()
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	editor := filepath.Join(dir, "editor")
	script := "#!/bin/sh\nif [ -e " + seen + " ]; then cp \"$1\" " + seen + "; exit 1; fi\ntouch " + seen + "\nsed -i 's/value: cluster-1/value: Not A Label/' \"$1\"\n"
	if err := os.WriteFile(editor, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := k.Command(ctx, "edit", "clusterclaim", "id.k8s.io")
	command.Env = append(command.Env, "KUBE_EDITOR="+editor)
	out, err := command.CombinedOutput()
	if err == nil {
		t.Errorf("kubectl edit with an invalid value succeeded:\n%s", out)
	}
	shown, readErr := os.ReadFile(seen)
	if readErr != nil || !bytes.Contains(shown, []byte("spec.value")) {
		t.Errorf("kubectl edit did not show the error at spec.value in the editor (%v):\n%s\n%s", readErr, shown, out)
	}
	k.Want(t, `value: cluster-1`, "get", "cc", "id.k8s.io", "-o", "yaml")
}

// checkWatchPrints watches a kind while one of its objects changes.
func checkWatchPrints(t *testing.T, k *framework.Kubectl) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := k.Command(ctx, "get", "nb", "-w")
	pipe, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		buffer := make([]byte, 4096)
		for {
			n, err := pipe.Read(buffer)
			if n > 0 {
				lines <- string(buffer[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	// The header and the first row say that the watch has begun.
	readUntil(t, lines, "worker-1")
	k.Run(t, "patch", "nb", "worker-1", "--subresource=status", "--type=merge", "-p",
		`{"status":{"effective":{"cpu":"5"},"conditions":[{"type":"Settled","status":"False","reason":"Resizing","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	readUntil(t, lines, "Resizing")
	cancel()
	if err := command.Wait(); err == nil {
		t.Error("kubectl get -w ended by itself")
	}
}

func readUntil(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), want) {
		select {
		case text, open := <-lines:
			if !open {
				t.Fatalf("the output ended without %q:\n%s", want, seen.String())
			}
			seen.WriteString(text)
		case <-time.After(20 * time.Second):
			t.Fatalf("no %q within 20 s:\n%s", want, seen.String())
		}
	}
}
