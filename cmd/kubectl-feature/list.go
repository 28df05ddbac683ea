// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

var states = []v1alpha1.State{v1alpha1.StateOn, v1alpha1.StateOff, v1alpha1.StateTurningOn, v1alpha1.StateTurningOff}

// selection is which Features a command is about: those that fulfil all that is asked for.
type selection struct {
	everywhere bool
	states     []string
	component  string
	dangling   bool
	unsettled  bool
}

func newList(p *program) *cobra.Command {
	s := &selection{}
	command := &cobra.Command{
		Use:   "list",
		Short: "List features, with filters",
		Example: "  kubectl feature list -A --unsettled\n" +
			"  kubectl feature list -n kube-system --component kube-scheduler --state On",
		Args: cobra.NoArgs,
	}
	addEverywhere(command, &s.everywhere)
	command.Flags().StringSliceVar(&s.states, "state", nil, "Only features in one of these states: On, Off, TurningOn, TurningOff.")
	command.Flags().StringVar(&s.component, "component", "", "Only features that this component uses.")
	command.Flags().BoolVar(&s.dangling, "dangling", false, "Only features that are off although stored objects use them.")
	command.Flags().BoolVar(&s.unsettled, "unsettled", false, "Only features that are not, or not yet, what is wished.")
	o := addOutput(command, true)
	command.RunE = func(command *cobra.Command, _ []string) error {
		return p.list(command.Context(), s, o, func(list *v1alpha1.FeatureList) error {
			return printTable(p.Out, s.columns(o.isWide()), list.Items)
		})
	}
	return command
}

func addEverywhere(command *cobra.Command, everywhere *bool) {
	command.Flags().BoolVarP(everywhere, "all-namespaces", "A", false, "Look into all namespaces instead of one.")
}

// list prints what is selected, by the function if no format is asked for.
func (p *program) list(ctx context.Context, s *selection, o *output, table func(*v1alpha1.FeatureList) error) error {
	printer, err := o.printer()
	if err != nil {
		return err
	}
	if err = s.validate(); err != nil {
		return err
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	namespace := c.namespace
	if s.everywhere {
		namespace = metav1.NamespaceAll
	}
	list, err := c.list(ctx, namespace)
	if err != nil {
		return err
	}
	all := len(list.Items)
	list.Items = slices.DeleteFunc(list.Items, func(f v1alpha1.Feature) bool { return !s.matches(&f) })
	if printer != nil {
		return o.printList(printer, list, p.Out)
	}
	if len(list.Items) > 0 {
		return table(list)
	}
	where, hint := "namespace "+namespace, "; -A looks into all namespaces"
	if s.everywhere {
		where, hint = "any namespace", ""
	}
	what := "No features"
	if all > 0 {
		what = fmt.Sprintf("None of %d features is what is asked for", all)
	}
	_, err = fmt.Fprintf(p.ErrOut, "%s in %s%s.\n", what, where, hint)
	return err
}

// validate also writes the states as the API does.
func (s *selection) validate() error {
	for i, given := range s.states {
		known := slices.IndexFunc(states, func(state v1alpha1.State) bool { return strings.EqualFold(string(state), given) })
		if known < 0 {
			return fmt.Errorf("--state %q is not known; known are On, Off, TurningOn, TurningOff", given)
		}
		s.states[i] = string(states[known])
	}
	return nil
}

func (s *selection) matches(f *v1alpha1.Feature) bool {
	return (len(s.states) == 0 || slices.Contains(s.states, string(f.Status.State))) &&
		(s.component == "" || isUsedBy(f, s.component)) &&
		(!s.dangling || isDangling(f)) &&
		(!s.unsettled || isUnsettled(f))
}

// columns are those of the server's table.
func (s *selection) columns(wide bool) []column {
	columns := append(s.nameColumns(),
		column{"State", func(f *v1alpha1.Feature) string { return string(f.Status.State) }},
		column{"Stability", func(f *v1alpha1.Feature) string { return string(f.Status.Stability) }},
		column{"Default", func(f *v1alpha1.Feature) string { return string(f.Status.Default) }},
		column{"Source", func(f *v1alpha1.Feature) string { return string(f.Status.Source) }},
		column{"Uses", usesOf},
		column{"Task", taskOf},
		column{"Age", func(f *v1alpha1.Feature) string { return age(f.CreationTimestamp) }},
	)
	if wide {
		columns = append(columns,
			column{"Version", func(f *v1alpha1.Feature) string { return f.Status.Version }},
			column{"Safe-To-Upgrade", func(f *v1alpha1.Feature) string { return string(conditionOf(f, v1alpha1.FeatureSafeToUpgrade).Status) }},
		)
	}
	return columns
}

// nameColumns are the namespace, where it is not the same for all, and the name.
func (s *selection) nameColumns() []column {
	name := column{"Name", func(f *v1alpha1.Feature) string { return f.Name }}
	if !s.everywhere {
		return []column{name}
	}
	return []column{{"Namespace", func(f *v1alpha1.Feature) string { return f.Namespace }}, name}
}
