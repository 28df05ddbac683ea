// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

func newDangling(p *program) *cobra.Command {
	s := &selection{dangling: true}
	command := &cobra.Command{
		Use:   "dangling",
		Short: "List features that are off although stored objects use them, with examples of these objects",
		Args:  cobra.NoArgs,
	}
	addEverywhere(command, &s.everywhere)
	o := addOutput(command, false)
	command.RunE = func(command *cobra.Command, _ []string) error {
		return p.list(command.Context(), s, o, func(list *v1alpha1.FeatureList) error {
			for i := range list.Items {
				feature := &list.Items[i]
				if _, err := fmt.Fprintf(p.Out, "%s/%s is %s\n", feature.Namespace, feature.Name, feature.Status.State); err != nil {
					return err
				}
				if err := writeDangling(p.Out, feature, "  "); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return command
}

// writeDangling writes how many stored objects use the feature, and a line an example.
func writeDangling(to io.Writer, feature *v1alpha1.Feature, indent string) error {
	found := feature.Status.DanglingReferences
	if found == nil {
		_, err := fmt.Fprintf(to, "%sstored objects use it; they were not counted\n", indent)
		return err
	}
	noun, verb := "stored objects", "use"
	if found.Count == 1 {
		noun, verb = "stored object", "uses"
	}
	if _, err := fmt.Fprintf(to, "%s%d %s %s it", indent, found.Count, noun, verb); err != nil {
		return err
	}
	more := found.Count - int64(len(found.Examples))
	switch {
	case len(found.Examples) == 0:
		_, err := fmt.Fprintln(to)
		return err
	case more > 0:
		_, _ = fmt.Fprintf(to, ", %d of which are:\n", len(found.Examples))
	default:
		_, _ = fmt.Fprintln(to, ":")
	}
	for _, example := range found.Examples {
		if _, err := fmt.Fprintf(to, "%s  %s\n", indent, safe(reference(example))); err != nil {
			return err
		}
	}
	return nil
}
