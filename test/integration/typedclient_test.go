// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/sharedtests"
)

func TestTypedClientExample(t *testing.T) {
	t.Parallel()
	sharedtests.TypedClient(t, root, framework.Start(t).Kubeconfig)
}
