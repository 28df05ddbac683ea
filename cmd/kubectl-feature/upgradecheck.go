// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

var verdictFormats = []string{"json", formatName, "yaml"}

// verdict is what upgrade-check prints as JSON and YAML.
type verdict struct {
	// Check is the condition that was looked at.
	Check string `json:"check"`
	// Safe is false if the condition is False for any feature.
	Safe bool `json:"safe"`
	// Checked is how many features there are.
	Checked int `json:"checked"`
	// Features are those for which the condition is not True, False before Unknown.
	Features []finding `json:"features"`
}

type finding struct {
	Namespace string                 `json:"namespace"`
	Name      string                 `json:"name"`
	State     v1alpha1.State         `json:"state"`
	Stability v1alpha1.Stability     `json:"stability"`
	Status    metav1.ConditionStatus `json:"status"`
	Reason    string                 `json:"reason"`
	Message   string                 `json:"message"`
}

func newUpgradeCheck(p *program) *cobra.Command {
	var downgrade bool
	var format string
	command := &cobra.Command{
		Use:   "upgrade-check",
		Short: "List what stands in the way of an upgrade; exit code 1 if anything does",
		Long: "Lists the features of all namespaces, or of the one that --namespace names, that stand in the way of an upgrade, and those of which\n" +
			"it is Unknown, such as features that are only observed from outside. The exit code is 1 if anything stands in the way.",
		Args: cobra.NoArgs,
	}
	command.Flags().BoolVar(&downgrade, "downgrade", false, "Ask about a downgrade instead.")
	command.Flags().StringVarP(&format, "output", "o", "", "Output format. One of: "+strings.Join(verdictFormats, ", ")+".")
	command.RunE = func(command *cobra.Command, _ []string) error {
		if format != "" && !slices.Contains(verdictFormats, format) {
			return unknownFormat(format, verdictFormats)
		}
		c, err := p.connect()
		if err != nil {
			return err
		}
		namespace := metav1.NamespaceAll
		if c.given {
			namespace = c.namespace
		}
		list, err := c.list(command.Context(), namespace)
		if err != nil {
			return err
		}
		condition, move := v1alpha1.FeatureSafeToUpgrade, "an upgrade"
		if downgrade {
			condition, move = v1alpha1.FeatureSafeToDowngrade, "a downgrade"
		}
		v := judge(list.Items, condition)
		if err := v.write(p.Out, format); err != nil {
			return err
		}
		return v.conclude(p.ErrOut, move)
	}
	return command
}

func judge(features []v1alpha1.Feature, condition string) verdict {
	v := verdict{Check: condition, Safe: true, Checked: len(features), Features: []finding{}}
	for i := range features {
		f := &features[i]
		c := conditionOf(f, condition)
		if c.Status == metav1.ConditionTrue {
			continue
		}
		v.Safe = v.Safe && c.Status != metav1.ConditionFalse
		v.Features = append(v.Features, finding{f.Namespace, f.Name, f.Status.State, f.Status.Stability, c.Status, c.Reason, c.Message})
	}
	slices.SortStableFunc(v.Features, func(a, b finding) int { return cmp.Compare(a.Status, b.Status) })
	return v
}

func (v verdict) write(to io.Writer, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(to)
		encoder.SetIndent("", "    ")
		return encoder.Encode(v)
	case "yaml":
		content, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("writing the verdict: %w", err)
		}
		_, err = to.Write(content)
		return err
	case formatName:
		for _, f := range v.Features {
			if _, err := fmt.Fprintf(to, "feature.%s/%s\n", v1alpha1.GroupName, f.Name); err != nil {
				return err
			}
		}
		return nil
	}
	if len(v.Features) == 0 {
		return nil
	}
	table := printers.GetNewTabWriter(to)
	_, _ = fmt.Fprintf(table, "NAMESPACE\tNAME\tSTATE\tSTABILITY\t%s\tREASON\tMESSAGE\n", map[string]string{
		v1alpha1.FeatureSafeToUpgrade: "SAFE-TO-UPGRADE", v1alpha1.FeatureSafeToDowngrade: "SAFE-TO-DOWNGRADE",
	}[v.Check])
	for _, f := range v.Features {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Namespace, f.Name, f.State, f.Stability, f.Status, safe(f.Reason), safe(f.Message))
	}
	return table.Flush()
}

// conclude says the verdict in one sentence, as an error if something stands in the way.
func (v verdict) conclude(to io.Writer, move string) error {
	counts := map[metav1.ConditionStatus]int{}
	for _, f := range v.Features {
		counts[f.Status]++
	}
	unknown := ""
	if n := counts[metav1.ConditionUnknown]; n > 0 {
		unknown = fmt.Sprintf("; of %d it is unknown", n)
	}
	if n := counts[metav1.ConditionFalse]; n > 0 {
		return fmt.Errorf("of %d features %d %s in the way of %s%s", v.Checked, n, plural(n, "stands", "stand"), move, unknown)
	}
	_, err := fmt.Fprintf(to, "Of %d features none stands in the way of %s%s.\n", v.Checked, move, unknown)
	return err
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
