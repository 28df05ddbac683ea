// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-annex/annex/controllers/restconfig/restconfigtest"
)

func TestCommandsRejectRedirects(t *testing.T) {
	t.Parallel()
	url, _ := restconfigtest.Redirect(t, http.StatusTemporaryRedirect)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "`+url+`"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: secret}}]
current-context: c
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"list"}, {"describe", "A"}, {"enable", "A"}, {"upgrade-check"}, {"dangling"}} {
		streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
		if code := run(t.Context(), append(args, "--kubeconfig="+kubeconfig), streams); code == 0 || !strings.Contains(stderr.String(), "redirect") {
			t.Errorf("%v: exit code %d, want a message about the redirect:\n%s%s", args, code, stdout, stderr)
		}
	}
}
