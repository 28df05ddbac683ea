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

	"k8s.io/apimachinery/pkg/api/meta"
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
	// Safe is true if no feature stands in the way, and a live server says so of at least one.
	Safe bool `json:"safe"`
	// Checked is how many features there are.
	Checked int `json:"checked"`
	// Features are those for which the condition is not True or cannot be relied on: blocking ones first, False before Unknown.
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
	// Blocking findings stand in the way: the condition is False, or nobody can tell.
	Blocking bool `json:"blocking"`
}

func newUpgradeCheck(p *program) *cobra.Command {
	var downgrade bool
	var format string
	command := &cobra.Command{
		Use:   "upgrade-check",
		Short: "List what stands in the way of an upgrade; exit code 1 if anything does, or nobody can tell",
		Long: "Lists the features of all namespaces, or of the one that --namespace names, that stand in the way of an upgrade, and those of which\n" +
			"it is Unknown because they are only observed from outside. The exit code is 1 if anything stands in the way. A feature also does if its\n" +
			"status is older than its spec, or if no live server announces it and it is not Off and clean. The exit code is 1, too, if there are no\n" +
			"features, or if no live server judges any of them.",
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
	v := verdict{Check: condition, Checked: len(features), Features: []finding{}}
	judged, blocking := false, false
	for i := range features {
		f := &features[i]
		c, blocks := assess(f, condition)
		if c.Status == metav1.ConditionTrue {
			judged = judged || meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.FeatureAvailable)
			continue
		}
		blocking = blocking || blocks
		v.Features = append(v.Features, finding{f.Namespace, f.Name, f.Status.State, f.Status.Stability, c.Status, c.Reason, c.Message, blocks})
	}
	v.Safe = judged && !blocking
	slices.SortStableFunc(v.Features, func(a, b finding) int {
		if a.Blocking != b.Blocking {
			if a.Blocking {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Status, b.Status)
	})
	return v
}

// assess returns the condition of a feature as far as it can be relied on, and reports whether the feature stands in the way. Only for
// features that are observed from outside may the condition be Unknown.
func assess(f *v1alpha1.Feature, condition string) (metav1.Condition, bool) {
	c, status := conditionOf(f, condition), &f.Status
	available := conditionOf(f, v1alpha1.FeatureAvailable).Status
	observed := status.Source == v1alpha1.SourceObserved
	clean := status.State == v1alpha1.StateOff && (status.DanglingReferences == nil || status.DanglingReferences.Count == 0)
	unknown := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: condition, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
	}
	switch {
	case c.Status == metav1.ConditionFalse:
	case status.ObservedGeneration < f.Generation:
		c = unknown("StaleStatus", fmt.Sprintf("the status is of generation %d, and the feature is at %d; wait until its server has seen the change, or start the server",
			status.ObservedGeneration, f.Generation))
	case observed, available == metav1.ConditionTrue, available == metav1.ConditionFalse && clean:
		return c, c.Status != metav1.ConditionTrue && !observed
	default:
		c = unknown("NotAnnounced", "no live server announces the feature; start the server that does, or delete the Feature if nothing uses it any more")
	}
	return c, true
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

// conclude says the verdict in one sentence, as an error if something stands in the way or nobody can tell.
func (v verdict) conclude(to io.Writer, move string) error {
	blocking := 0
	for _, f := range v.Features {
		if f.Blocking {
			blocking++
		}
	}
	unknown := ""
	if n := len(v.Features) - blocking; n > 0 {
		unknown = fmt.Sprintf("; of %d it is unknown", n)
	}
	switch {
	case v.Checked == 0:
		return fmt.Errorf("there are no features, so that nobody can tell whether %s is safe; check --namespace, and that the servers that announce features run", move)
	case blocking > 0:
		return fmt.Errorf("of %d features %d %s in the way of %s%s", v.Checked, blocking, plural(blocking, "stands", "stand"), move, unknown)
	case !v.Safe:
		return fmt.Errorf("of %d features a live server judges none, so that nobody can tell whether %s is safe; check that the servers that announce features run", v.Checked, move)
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
