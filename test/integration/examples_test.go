// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/kube-annex/annex/test/checks"
	"github.com/kube-annex/annex/test/harness"
)

const root = "../.."

func TestExamples(t *testing.T) {
	t.Parallel()
	server := harness.Start(t)
	created := checks.Examples(t, root, server.Config)
	server.Restart(t)
	checks.Stored(t, server.Config, created)
	checks.Delete(t, server.Config, created)
}

func TestCreateOnlyExamples(t *testing.T) {
	t.Parallel()
	checks.CreateOnlyExamples(t, root, harness.Start(t).Config)
}
