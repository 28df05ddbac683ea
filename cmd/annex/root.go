// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	cliflag "k8s.io/component-base/cli/flag"

	"github.com/kube-annex/annex/cmd/internal/terminal"
)

// run executes the command line and returns the exit code. Any error is one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot() //nolint:contextcheck // commands run with the context given to ExecuteContext
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return 0
	}
	_, _ = fmt.Fprintf(stderr, "annex: %s\n", terminal.Text(oneLine(err.Error())))
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "annex",
		Short: "Kubernetes APIs for features, cluster identity and node size, built onto any cluster",
		Long: "Annex is an extension apiserver for Kubernetes: features.k8s.io, multicluster.k8s.io and node.k8s.io behind APIServices of any cluster,\n" +
			"or of its own small control plane. `annex up` runs all of it on this machine.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return fmt.Errorf("%w; `%s --help` lists all flags", err, command.CommandPath())
	})
	addSections(root, &cliflag.NamedFlagSets{})
	root.AddCommand(newUp(), newAPIServer(), newControllers(), newControlPlane(), newRegister(), newUnregister(), newClaims(), newKubeconfig(), newVersion())
	return root
}

// oneLine keeps a message that a library broke into several lines on one.
func oneLine(message string) string {
	lines := strings.FieldsFunc(message, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "; ")
}
