// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedtests

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

// TypedClient runs the example program as its reader would, twice. There must be no objects before it, but for Features.
func TypedClient(t *testing.T, root, kubeconfig string) {
	t.Helper()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		command := exec.CommandContext(ctx, "go", "run", "./artifacts/examples/typed-client")
		command.Dir = root
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("typed-client: %v\n%s", err, out)
		}
		for _, want := range []string{"saw Feature TypedClient", "saw ClusterClaim typed-client.example.com", "saw NodeBalloon typed-client", "[1-9][0-9]* Features, 1 ClusterClaims, 1 NodeBalloons"} {
			if !regexp.MustCompile(want).Match(out) {
				t.Errorf("typed-client did not print %q:\n%s", want, out)
			}
		}
	}
}
