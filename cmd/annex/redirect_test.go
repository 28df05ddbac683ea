// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/kube-annex/annex/controllers/restconfig/restconfigtest"
)

// TestCommandsRejectRedirects runs each command that reads a kubeconfig against a server that redirects.
func TestCommandsRejectRedirects(t *testing.T) {
	t.Parallel()
	url, _ := restconfigtest.Redirect(t, http.StatusTemporaryRedirect)
	dir := t.TempDir()
	kubeconfig := writeFile(t, strings.ReplaceAll(nobodyThere, "https://127.0.0.1:1", url), dir, "kubeconfig")
	property := writeFile(t, "apiVersion: about.k8s.io/v1alpha1\nkind: ClusterProperty\nmetadata: {name: a}\nspec: {value: b}\n", dir, "property.yaml")
	for name, args := range map[string][]string{
		"register":       {"register"},
		"unregister":     {"unregister"},
		"claims export":  {"claims", "export"},
		"claims import":  {"claims", "import", "-f", property},
		"claims to take": {"claims", "import"},
		"kubeconfig":     {"kubeconfig", "--user=jane"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), append(args, "--kubeconfig="+kubeconfig), &stdout, &stderr); code != 1 || !strings.Contains(stderr.String()+stdout.String(), "redirect") {
				t.Errorf("exit code %d, want 1 and a message about the redirect:\n%s%s", code, &stdout, &stderr)
			}
		})
	}
}
