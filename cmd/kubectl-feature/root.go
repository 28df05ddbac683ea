// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/kube-annex/annex/cmd/internal/terminal"
)

// run executes the command line and returns the exit code. An error is told on the error stream, as kubectl tells it.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams) int {
	// Names, messages and versions are whatever reporters and servers have written.
	streams.Out, streams.ErrOut = terminal.Safe(streams.Out), terminal.Safe(streams.ErrOut)
	root := newRoot(streams) //nolint:contextcheck // commands run with the context given to ExecuteContext
	root.SetArgs(args)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	if err := root.ExecuteContext(ctx); err != nil {
		_, _ = fmt.Fprintf(streams.ErrOut, "error: %s\n", err)
		return 1
	}
	return 0
}

// program is what all subcommands share.
type program struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	p := &program{IOStreams: streams, flags: genericclioptions.NewConfigFlags(false)}
	root := &cobra.Command{
		Use:         "kubectl-feature",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl feature"},
		Short:       "See which features are on, turn them on and off, and check whether an upgrade is safe",
		Long: "See which features are on and who uses them, turn them on and off, and check whether an upgrade is safe.\n" +
			"Kubernetes' own features are in the namespace kube-system, those of Annex in annex-system.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return fmt.Errorf("%w; `%s --help` lists all flags", err, command.CommandPath())
	})
	p.flags.AddFlags(root.PersistentFlags())
	root.AddCommand(newList(p), newDescribe(p), newEnable(p), newDisable(p), newUnset(p), newUpgradeCheck(p), newDangling(p))
	return root
}

// oneName is cobra's ExactArgs(1) with an error that says what is missing.
func oneName(command *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give the name of one feature, as in `%s NodeSwap -n kube-system`; there are %d names", command.CommandPath(), len(args))
	}
	return nil
}
