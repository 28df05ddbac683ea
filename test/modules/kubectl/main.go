// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl is Kubernetes' own kubectl, built from its published library for tests, so that they need none installed. It
// is a module of its own because it needs much that Annex does not.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
