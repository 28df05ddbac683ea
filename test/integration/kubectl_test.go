// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/kube-annex/annex/test/checks"
	"github.com/kube-annex/annex/test/harness"
)

func TestKubectl(t *testing.T) {
	t.Parallel()
	checks.Kubectl(t, root, harness.Start(t).Kubeconfig)
}
