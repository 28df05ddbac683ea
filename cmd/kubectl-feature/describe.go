// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

func newDescribe(p *program) *cobra.Command {
	command := &cobra.Command{
		Use:               "describe NAME",
		Short:             "Show who uses a feature, what is being done about it, and whether it is safe to upgrade",
		Example:           "  kubectl feature describe NodeSwap -n kube-system",
		Args:              oneName,
		ValidArgsFunction: p.completeNames,
	}
	o := addOutput(command, false)
	command.RunE = func(command *cobra.Command, args []string) error {
		printer, err := o.printer()
		if err != nil {
			return err
		}
		c, err := p.connect()
		if err != nil {
			return err
		}
		feature, err := c.get(command.Context(), nameOf(args[0]))
		if err != nil {
			return err
		}
		if printer != nil {
			return printer.PrintObj(typed(feature), p.Out)
		}
		return describe(p.Out, feature)
	}
	return command
}

// describe writes a feature for people. What does not apply is left out.
func describe(out io.Writer, f *v1alpha1.Feature) error {
	to := printers.GetNewTabWriter(out)
	status := &f.Status
	field := func(name, format string, values ...any) {
		_, _ = fmt.Fprintf(to, "%s:\t%s\n", name, safe(fmt.Sprintf(format, values...)))
	}
	field("Name", "%s", f.Name)
	field("Namespace", "%s", f.Namespace)
	field("State", "%s", orUnknown(status.State))
	if f.Generation > status.ObservedGeneration {
		field("", "(the latest change of the wish has not been seen yet)")
	}
	locked := ""
	if status.Locked {
		locked = ", locked"
	}
	field("Stability", "%s%s", orUnknown(status.Stability), locked)
	field("Default", "%s", orUnknown(status.Default))
	if status.Configured != "" {
		field("Configured", "%s (%s)", status.Configured, orUnknown(status.Source))
	}
	if f.Spec.Desired != "" {
		ignored := ""
		if !status.Dynamic {
			ignored = " (ignored, as the feature is not dynamic)"
		}
		field("Desired", "%s%s", f.Spec.Desired, ignored)
	}
	if canary := f.Spec.Canary; canary != nil {
		field("Canary", "%d%% of the reporters see the new value", canary.Percent)
	}
	field("Dynamic", "%t", status.Dynamic)
	if status.Version != "" {
		field("Version", "%s", status.Version)
	}
	field("Age", "%s", age(f.CreationTimestamp))
	describeTasks(to, f)
	describeUses(to, f)
	if found := status.DanglingReferences; isDangling(f) || found != nil && found.Count > 0 {
		_, _ = fmt.Fprintln(to, "Dangling references:")
		if err := writeDangling(to, f, "  "); err != nil {
			return err
		}
	}
	if len(status.Conditions) > 0 {
		_, _ = fmt.Fprintln(to, "Conditions:\n  TYPE\tSTATUS\tREASON\tMESSAGE")
	}
	for _, condition := range status.Conditions {
		_, _ = fmt.Fprintf(to, "  %s\t%s\t%s\t%s\n", safe(condition.Type), condition.Status, safe(condition.Reason), safe(condition.Message))
	}
	return to.Flush()
}

func describeTasks(to io.Writer, f *v1alpha1.Feature) {
	if len(f.Status.Tasks) > 0 {
		_, _ = fmt.Fprintln(to, "Tasks:\n  NAME\tSTATE\tPROGRESS\tATTEMPTS\tMESSAGE")
	}
	for i := range f.Status.Tasks {
		task := &f.Status.Tasks[i]
		_, _ = fmt.Fprintf(to, "  %s\t%s\t%s\t%d\t%s\n", safe(task.Name), task.State, bar(task), task.Attempts, safe(task.Message))
	}
}

func describeUses(to io.Writer, f *v1alpha1.Feature) {
	if at := f.Status.UseEvaluationTime; at != nil {
		_, _ = fmt.Fprintf(to, "Answers are read at:\t%s\n", at.UTC().Format(time.RFC3339))
	}
	if len(f.Status.Uses) == 0 {
		_, _ = fmt.Fprintln(to, "Uses:\tnobody reported any")
		return
	}
	_, _ = fmt.Fprintln(to, "Uses:\n  COMPONENT\tVERSION\tVALUE\tREPORTER\tSINCE")
	for _, use := range f.Status.Uses {
		since := ""
		if use.ReportTime != nil {
			since = age(*use.ReportTime)
		}
		_, _ = fmt.Fprintln(to, "  "+strings.Join([]string{safe(use.Component), safe(use.Version), string(use.Value), safe(use.Reporter), since}, "\t"))
	}
}

func orUnknown[T ~string](value T) string {
	if value == "" {
		return "<unknown>"
	}
	return string(value)
}
