// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	part = "-lapp.kubernetes.io/part-of=library"
	// chart is as kubectl sees it, which runs in the repository.
	chart = "test/compatibility/clients/chart/"
)

// TestChart installs, uses, upgrades and removes what a larger application brings along, first with kubectl alone and then with Helm.
func TestChart(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	k := framework.NewKubectl(t, root, server.Kubeconfig)
	before := settledInventory(t, server)
	install(t, k)
	useChart(t, k)
	upgraded := upgrade(t, k)
	k.Run(t, "delete", "-f", upgraded, "--ignore-not-found")
	wantInventory(t, server, before)

	release(t, k, server.Kubeconfig)
	wantInventory(t, server, before)
}

// install applies everything in each way that there is, after the first of which nothing changes any more.
func install(t *testing.T, k *framework.Kubectl) {
	t.Helper()
	both := []string{"-f", chart + "install", "-f", chart + "objects"}
	eachLine(t, k.Run(t, "apply", "-f", chart+"install"), 41, "created")
	k.Run(t, "wait", "--for=condition=Established", "crd", part, "--timeout=60s")
	eachLine(t, k.Run(t, "apply", "-f", chart+"objects"), 5, "created")
	eachLine(t, k.Run(t, append([]string{"apply"}, both...)...), 46, "unchanged")
	if out := k.Run(t, append([]string{"diff"}, both...)...); out != "" {
		t.Errorf("kubectl diff after kubectl apply:\n%s", out)
	}
	eachLine(t, k.Run(t, append([]string{"apply", "--server-side"}, both...)...), 46, "serverside-applied")
	versions := func() string {
		return k.Run(t, append([]string{"get", "-o", `jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`}, both...)...)
	}
	// ResourceQuotas are of a controller, too, which may still be counting.
	static := func(lines string) string {
		var kept []string
		for line := range strings.Lines(lines) {
			if !strings.HasPrefix(line, "ResourceQuota ") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	first := static(versions())
	eachLine(t, k.Run(t, append([]string{"apply", "--server-side"}, both...)...), 46, "serverside-applied")
	if second := static(versions()); second != first {
		t.Errorf("a repeated server-side apply moved resourceVersions from\n%s to\n%s", first, second)
	}
	if out := k.Run(t, append([]string{"diff", "--server-side"}, both...)...); out != "" {
		t.Errorf("kubectl diff --server-side after kubectl apply --server-side:\n%s", out)
	}
	k.Want(t, `^book\.library\.example\.com/emma`, "get", "all,cm", "-A", part, "-o", "name")
	k.Want(t, `^library\s+configmap/opening-hours\s+2 `, "get", "all,cm", "-A")
}

// useChart checks that what was installed acts.
func useChart(t *testing.T, k *framework.Kubectl) {
	t.Helper()
	k.Want(t, `Warning: library\.example\.com/v1beta1 Book is deprecated; use v1`, "get", "books.v1beta1.library.example.com", "-n", "library")
	k.Want(t, `^book\.library\.example\.com/atlas\n$`, "get", "bk", "-n", "library", "--field-selector=spec.shelf=travel", "-o", "name")
	k.WantEventually(t, `What is on the cover`, "explain", "book.spec.title")
	k.WantError(t, `no more can be lent than there are`, "patch", "book", "emma", "-n", "library", "--type=merge", "-p", `{"spec":{"lent":3}}`)
	k.WantError(t, `a loan is of one book`, "patch", "loan", "emma-1", "-n", "library", "--type=merge", "-p", `{"spec":{"book":"atlas"}}`)
	k.Want(t, `scaled`, "scale", "shelf", "fiction", "-n", "library", "--replicas=7")
	k.Want(t, `^fiction\s+7`, "get", "shelf", "fiction", "-n", "library")
	k.WantError(t, `field is immutable when .immutable. is set`, "patch", "secret", "seal", "-n", "library", "-p", `{"data":{"seal":"eA=="}}`)

	// Policies take effect a moment after they were made.
	wantRefusal(t, k, `titles are quiet`, "create", "--dry-run=server", "-f", written(t, book("loud", "Loud!")))
	k.WantEventually(t, `library\.example\.com/stamped: "yes"`, "create", "--dry-run=server", "-o", "yaml", "-f", written(t, book("stamped", "Stamped")))
	loan := func(name string) string {
		return written(t, `{apiVersion: library.example.com/v1, kind: Loan, metadata: {name: `+name+`, namespace: library, labels: {app.kubernetes.io/part-of: library}}, spec: {book: atlas}}`)
	}
	k.WantEventually(t, `"count/loans\.library\.example\.com":"1"`, "get", "quota", "loans", "-n", "library", "-o", "jsonpath={.status.used}")
	k.Want(t, `created`, "create", "-f", loan("atlas-1"))
	k.WantError(t, `exceeded quota: loans`, "create", "-f", loan("atlas-2"))
	k.Run(t, "delete", "-f", loan("atlas-1"))

	const reader, auditor = "--as=system:serviceaccount:library:reader", "--as=system:serviceaccount:library:auditor"
	k.WantEventually(t, `^yes`, "auth", "can-i", "watch", "books", "-n", "library", reader)
	k.WantError(t, `^no`, "auth", "can-i", "delete", "books", "-n", "library", reader)
	k.WantError(t, `^no`, "auth", "can-i", "get", "configmap/fees", "-n", "library", reader)
	k.WantEventually(t, `^yes`, "auth", "can-i", "delete", "loans", "-n", "library", auditor)
	k.WantEventually(t, `^yes`, "auth", "can-i", "get", "/metrics", auditor)
	k.WantEventually(t, `library\.example\.com`, "get", "clusterrole", "edit", "-o", "yaml")
	k.WantEventually(t, `^[A-Za-z0-9_=-]{40}`, "get", "secret", "auditor-token", "-n", "library", "-o", "jsonpath={.data.token}")
}

// wantRefusal waits until kubectl fails with what matches.
func wantRefusal(t *testing.T, k *framework.Kubectl, pattern string, args ...string) {
	t.Helper()
	err := poll.Until(t.Context(), 30*time.Second, func(context.Context) error {
		out, err := k.Try(t, args...)
		return poll.Want(err != nil && regexp.MustCompile(pattern).MatchString(out), out)
	})
	if err != nil {
		t.Errorf("kubectl %s does not fail with %s: %v", strings.Join(args, " "), pattern, err)
	}
}

func book(name, title string) string {
	return "{apiVersion: library.example.com/v1, kind: Book, metadata: {name: " + name + ", namespace: library}, spec: {title: " + title + "}}"
}

// upgrade applies the next version of the chart, and removes what is no longer in it. It returns where that version is.
func upgrade(t *testing.T, k *framework.Kubectl) string {
	t.Helper()
	next := t.TempDir()
	for _, from := range []string{"install", "upgrade"} {
		if err := copyFiles(next, filepath.Join("chart", from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(next, "60-retired.yaml")); err != nil {
		t.Fatal(err)
	}
	if out, err := k.Try(t, "diff", "-f", next); err == nil || !strings.Contains(out, "+  weekdays: 8-20") {
		t.Errorf("kubectl diff does not show what the upgrade changes: %v\n%s", err, out)
	}
	out := k.Run(t, "apply", "--prune", part, "--prune-allowlist=core/v1/ConfigMap", "--prune-allowlist=rbac.authorization.k8s.io/v1/Role", "-f", next)
	for _, line := range []string{
		"configmap/news created", "configmap/opening-hours configured",
		"customresourcedefinition.apiextensions.k8s.io/books.library.example.com configured",
		"configmap/card-index pruned", "configmap/fees pruned", "configmap/languages pruned", "configmap/printers pruned",
		"role.rbac.authorization.k8s.io/card-indexer pruned",
	} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("the upgrade did not say %q:\n%s", line, out)
		}
	}
	if strings.Count(out, "pruned") != 5 {
		t.Errorf("the upgrade removed something else:\n%s", out)
	}
	eachLine(t, k.Run(t, "apply", "-f", next), 37, "unchanged")
	k.WantEventually(t, `^emma\s+Emma\s+unknown`, "get", "books.v2.library.example.com", "-n", "library")
	k.Want(t, `^apiVersion: library\.example\.com/v1$`, "get", "books.v1.library.example.com", "atlas", "-n", "library", "-o", "yaml")
	k.WantError(t, `the server doesn't have a resource type`, "get", "books.v1beta1.library.example.com", "-n", "library")
	k.WantError(t, `NotFound`, "get", "configmap", "fees", "-n", "library")
	return next
}

func copyFiles(to, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, entry.Name()), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// written returns the name of a file with the manifest.
func written(t *testing.T, manifest string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// eachLine checks that there are so many lines, all of which end so.
func eachLine(t *testing.T, output string, count int, end string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
	if len(lines) != count {
		t.Errorf("there are %d lines, want %d:\n%s", len(lines), count, output)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, " "+end) {
			t.Errorf("a line does not end with %q: %s", end, line)
		}
	}
}
