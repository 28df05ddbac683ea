// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"
)

// addSections gives a command the flags of all sections. Its help shows them by section, as wide as the terminal is.
func addSections(command *cobra.Command, sections *cliflag.NamedFlagSets) {
	sections.FlagSet("global").BoolP("help", "h", false, "Show this help.")
	for _, name := range sections.Order {
		command.Flags().AddFlagSet(sections.FlagSets[name])
	}
	command.SetHelpFunc(func(command *cobra.Command, _ []string) {
		to := command.OutOrStdout()
		columns, _, err := term.TerminalSize(to)
		if err != nil {
			columns = 0 // no terminal, and nothing is wrapped
		}
		help(command, sections, to, columns)
	})
}

func help(command *cobra.Command, sections *cliflag.NamedFlagSets, to io.Writer, columns int) {
	var text strings.Builder
	about := command.Long
	if about == "" {
		about = command.Short
	}
	fmt.Fprintf(&text, "%s\n\nUsage:\n", about)
	commands := command.Commands()
	if command.Runnable() && len(commands) == 0 {
		fmt.Fprintf(&text, "  %s\n", command.UseLine())
	} else {
		fmt.Fprintf(&text, "  %s COMMAND\n", command.CommandPath())
	}
	if command.Example != "" {
		fmt.Fprintf(&text, "\nExamples:\n%s\n", command.Example)
	}
	if len(commands) > 0 {
		text.WriteString("\nCommands:\n")
		for _, below := range commands {
			if below.IsAvailableCommand() {
				fmt.Fprintf(&text, "  %-*s %s\n", below.NamePadding(), below.Name(), below.Short)
			}
		}
	}
	cliflag.PrintSections(&text, *sections, columns)
	if len(commands) > 0 {
		fmt.Fprintf(&text, "\n`%s COMMAND --help` says more about a command.\n", command.CommandPath())
	}
	_, _ = io.WriteString(to, text.String())
}
