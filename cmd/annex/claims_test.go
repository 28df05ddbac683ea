// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

func TestClaimsBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	garbage := writeFile(t, "{{{", dir, "garbage.yaml")
	good := writeFile(t, "apiVersion: about.k8s.io/v1alpha1\nkind: ClusterProperty\nmetadata: {name: a}\nspec: {value: b}\n", dir, "good.yaml")
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"unknown way":                 {[]string{"bogus"}, []string{`"bogus"`, "annex claims"}},
		"argument of import":          {[]string{"import", "a.yaml"}, []string{`"a.yaml"`}},
		"unknown flag":                {[]string{"export", "--bogus"}, []string{"--bogus", "annex claims export --help"}},
		"export from a file":          {[]string{"export", "-f", good}, []string{"-f", "annex claims export --help"}},
		"unknown format":              {[]string{"import", "-f", good, "-o", "xml"}, []string{"--output xml is not known; known are json, name, table and yaml"}},
		"prints and overwrites":       {[]string{"import", "-f", good, "-o", "name", "--overwrite"}, []string{"--output prints and changes nothing", "leave out one of them"}},
		"missing file":                {[]string{"import", "-f", filepath.Join(dir, "none"), "-o", "name"}, []string{"--filename cannot be used", filepath.Join(dir, "none")}},
		"garbage":                     {[]string{"import", "-f", garbage, "-o", "name"}, []string{"--filename " + garbage, "read document 1", "give YAML or JSON"}},
		"missing kubeconfig":          {[]string{"import", "-f", good, "--kubeconfig=/nowhere"}, []string{"--kubeconfig /nowhere cannot be used"}},
		"missing kubeconfig, outward": {[]string{"export", "--kubeconfig=/nowhere"}, []string{"--kubeconfig /nowhere cannot be used"}},
		"nobody there":                {[]string{"export", "--kubeconfig=" + writeFile(t, nobodyThere, dir, "nobody")}, []string{"https://127.0.0.1:1 does not answer", "see that it runs"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), append([]string{"claims"}, tc.args...), &stdout, &stderr); code != 1 {
				t.Errorf("exit code is %d, want 1", code)
			}
			checkOneClearLine(t, stderr.String(), tc.want...)
			if stdout.Len() > 0 {
				t.Errorf("stdout is not empty:\n%s", stdout.String())
			}
		})
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"claims"}, &stdout, &stderr); code != 0 || !strings.Contains(stdout.String(), "import") || !strings.Contains(stdout.String(), "export") {
		t.Errorf("without a way, exit code %d:\n%s%s", code, &stdout, &stderr)
	}
}

// TestClaimsOfAFileDoNotSteerATerminal prints what a file has in names, values and labels.
func TestClaimsOfAFileDoNotSteerATerminal(t *testing.T) {
	t.Parallel()
	file := writeFile(t, `{"apiVersion":"about.k8s.io/v1alpha1","kind":"ClusterProperty","metadata":{"name":"a\u001b[2J\u009b31m","labels":{"x":"\u007f\u009b"}},"spec":{"value":"b\u001b\u009b\u007f"}}
---
{"apiVersion":"about.k8s.io/v1alpha1","kind":"ClusterProperty","metadata":{"name":"good"},"spec":{"value":"b\u009b31m\u007f"}}
`, t.TempDir(), "evil.yaml")
	for _, format := range []string{"json", "name", "table", "yaml"} {
		var stdout, stderr bytes.Buffer
		run(t.Context(), []string{"claims", "import", "-f", file, "-o", format}, &stdout, &stderr)
		printed := stdout.String() + stderr.String()
		if !strings.Contains(printed, "good") {
			t.Errorf("%s: what is printed lacks the claim: %q", format, printed)
		}
		if strings.ContainsFunc(printed, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
			t.Errorf("%s: a terminal would obey what is printed: %q", format, printed)
		}
	}
}

const nobodyThere = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
current-context: c
`
