// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/sharedtests"
)

const root = "../.."

func TestMain(m *testing.M) { framework.Main(m) }

func TestExamples(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	created := sharedtests.Examples(t, root, server.Config)
	server.Restart(t)
	sharedtests.Stored(t, server.Config, created)
	sharedtests.Delete(t, server.Config, created)
}

func TestCreateOnlyExamples(t *testing.T) {
	t.Parallel()
	sharedtests.CreateOnlyExamples(t, root, framework.SharedServer().Config)
}
