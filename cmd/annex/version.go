// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/server/version"
)

func newVersion() *cobra.Command {
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(command.OutOrStdout(), version.Binary())
			return err
		},
	}
	addSections(command, &cliflag.NamedFlagSets{})
	return command
}
