// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

const (
	// maxUses is how many uses a Feature lists.
	maxUses = 64
	// maxReporterLength is how long the name of an instance may be.
	maxReporterLength = 253

	// metricsPath ends the reporters of this package, and no others.
	metricsPath = "/metrics"

	reasonObserved    = "Observed"
	reasonNotObserved = "NotObserved"
	reasonAgreement   = "Agreement"
	reasonMixed       = "MixedValues"
)

// announced tells whether someone else has announced the Feature, who alone writes its status then.
func announced(feature *v1alpha1.Feature) bool {
	return feature.Status.Source != "" && feature.Status.Source != v1alpha1.SourceObserved
}

// statusOf is what the Feature's status shall be, in view of how components see its gate now. It equals the Feature's status when
// there is nothing to write.
func statusOf(feature *v1alpha1.Feature, seen []observation, v view, now metav1.Time) v1alpha1.FeatureStatus {
	previous := &feature.Status
	status := *previous.DeepCopy()
	status.ObservedGeneration = feature.Generation
	status.Source = v1alpha1.SourceObserved
	status.Default, status.Locked, status.Dynamic = "", false, false
	status.Tasks, status.UseEvaluationTime = nil, nil

	var others []v1alpha1.Use
	for i := range previous.Uses {
		use := &previous.Uses[i]
		switch {
		case !strings.HasSuffix(use.Reporter, metricsPath):
			if !slices.ContainsFunc(seen, func(o observation) bool { return o.is(use) }) {
				others = append(others, *use)
			}
		case v.mayHold(use):
			seen = observe(seen, observation{component: use.Component, version: use.Version, value: use.Value, reporters: []string{use.Reporter}})
		}
	}
	slices.SortFunc(seen, func(a, b observation) int {
		return cmp.Or(
			first(a.component == apiServer, b.component == apiServer), cmp.Compare(a.component, b.component),
			-compareVersions(a.version, b.version), -cmp.Compare(a.value, b.value))
	})
	status.Uses = nil
	for _, o := range seen {
		status.Uses = append(status.Uses, o.use(previous.Uses, now))
	}
	status.Uses = append(status.Uses, others...)
	if len(status.Uses) > maxUses {
		status.Uses = status.Uses[:maxUses]
	}
	if len(seen) > 0 {
		decide(&status, seen)
	}
	setConditions(&status, len(seen) > 0, now)
	return status
}

// decide sets what follows one component, the first of those that have seen the gate. They are in order.
func decide(status *v1alpha1.FeatureStatus, seen []observation) {
	leading := seen[0]
	value, stability := leading.value, v1alpha1.Stability("")
	for _, o := range seen {
		if o.component != leading.component {
			break
		}
		if stateOf(o.value) == status.State {
			value = o.value
		}
		stability = cmp.Or(stability, o.stability)
	}
	status.Configured, status.State = value, stateOf(value)
	status.Version = leading.version
	status.Stability = cmp.Or(stability, status.Stability)
}

func setConditions(status *v1alpha1.FeatureStatus, seen bool, now metav1.Time) {
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: status.ObservedGeneration, LastTransitionTime: now,
		})
	}
	set(v1alpha1.FeatureSettled, metav1.ConditionTrue, reasonObserved, "The components were started with this value.")
	if seen {
		set(v1alpha1.FeatureAvailable, metav1.ConditionTrue, reasonObserved, "")
	} else {
		set(v1alpha1.FeatureAvailable, metav1.ConditionFalse, reasonNotObserved, "No component that is observed has this feature gate any more.")
	}
	if message := conflict(status.Uses); message != "" {
		set(v1alpha1.FeatureConflict, metav1.ConditionTrue, reasonMixed, message)
	} else {
		set(v1alpha1.FeatureConflict, metav1.ConditionFalse, reasonAgreement, "")
	}
	const unknown = "Only observed: its component does not tell what stands in the way."
	set(v1alpha1.FeatureSafeToUpgrade, metav1.ConditionUnknown, reasonObserved, unknown)
	set(v1alpha1.FeatureSafeToDowngrade, metav1.ConditionUnknown, reasonObserved, unknown)
}

// conflict names who sees the feature with which value, or is empty when all see it alike.
func conflict(uses []v1alpha1.Use) string {
	who := map[v1alpha1.Value][]string{}
	for _, use := range uses {
		who[use.Value] = append(who[use.Value], use.Component+" "+use.Version)
	}
	if len(who) < 2 {
		return ""
	}
	return fmt.Sprintf("Enabled in %s; Disabled in %s.", strings.Join(who[v1alpha1.ValueEnabled], ", "), strings.Join(who[v1alpha1.ValueDisabled], ", "))
}

func (o *observation) is(use *v1alpha1.Use) bool {
	return use.Component == o.component && use.Version == o.version && use.Value == o.value
}

// use is how the observation is listed. The example and the time stay what they were, as long as they are true.
func (o *observation) use(listed []v1alpha1.Use, now metav1.Time) v1alpha1.Use {
	use := v1alpha1.Use{Component: o.component, Version: o.version, Value: o.value, Reporter: o.reporters[0], ReportTime: &now}
	for i := range listed {
		if !o.is(&listed[i]) {
			continue
		}
		use.ReportTime = listed[i].ReportTime
		if slices.Contains(o.reporters, listed[i].Reporter) {
			use.Reporter = listed[i].Reporter
		}
	}
	return use
}

func stateOf(value v1alpha1.Value) v1alpha1.State {
	if value == v1alpha1.ValueEnabled {
		return v1alpha1.StateOn
	}
	return v1alpha1.StateOff
}

func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// compareVersions orders versions such as v1.37.1 and v1.37.1-vendor.2, and others as text.
func compareVersions(a, b string) int {
	left, leftErr := version.ParseSemantic(a)
	right, rightErr := version.ParseSemantic(b)
	if leftErr != nil || rightErr != nil {
		return cmp.Compare(a, b)
	}
	switch {
	case left.LessThan(right):
		return -1
	case right.LessThan(left):
		return 1
	}
	return cmp.Compare(a, b)
}
