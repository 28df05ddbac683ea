// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// Reasons of conditions.
const (
	reasonAgreement    = "Agreement"
	reasonReplicas     = "ReplicasDisagree"
	reasonComponents   = "ComponentsDisagree"
	reasonTransition   = "Transition"
	reasonConflict     = "Conflict"
	reasonVersions     = "SeveralVersions"
	reasonDataLoss     = "ChangesData"
	reasonSettled      = "Settled"
	reasonAnnounced    = "Announced"
	reasonNotAnnounced = "NotAnnounced"
	reasonDangling     = "ReferencesLeft"
	reasonNoDangling   = "NoReferences"
	reasonSafe         = "Safe"
)

func (d *decider) setCondition(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&d.out.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: d.feature.Generation, LastTransitionTime: metav1.NewTime(d.in.now),
	})
}

// setConditions sets the conditions of a feature that is announced.
func (d *decider) setConditions(announcing []announcedBy) {
	d.setCondition(v1alpha1.FeatureAvailable, metav1.ConditionTrue, reasonAnnounced, fmt.Sprintf("announced by %s %s", highestVersion(announcing).component, highestVersion(announcing).Version))
	d.setConflict()
	if d.out.rechecking {
		d.removeDisagreeing() // The condition keeps the disagreement until the poll ends.
	}
	switch {
	case d.inTransition():
		d.setCondition(v1alpha1.FeatureSettled, metav1.ConditionFalse, reasonTransition, d.describeTasks())
	case !d.desired.agreed():
		d.setCondition(v1alpha1.FeatureSettled, metav1.ConditionFalse, reasonConflict, "the state stays until all replicas want the same")
	case valueOf(d.out.status.State) != d.desired.value:
		d.setCondition(v1alpha1.FeatureSettled, metav1.ConditionFalse, reasonTransition, "a transition is about to begin")
	case d.versions.waiting:
		d.setCondition(v1alpha1.FeatureSettled, metav1.ConditionFalse, reasonVersions, "the tasks of the change of version wait until all replicas are of one: "+d.versions.description)
	default:
		d.setCondition(v1alpha1.FeatureSettled, metav1.ConditionTrue, reasonSettled, "")
	}
	d.setSafety()
}

func (d *decider) describeTasks() string {
	if len(d.out.status.Tasks) == 1 {
		return fmt.Sprintf("the last task, %s, is left", d.out.status.Tasks[0].Name)
	}
	return fmt.Sprintf("%d tasks are left, of which %s is the first", len(d.out.status.Tasks), d.out.status.Tasks[0].Name)
}

func (d *decider) setConflict() {
	before := meta.FindStatusCondition(d.out.status.Conditions, v1alpha1.FeatureConflict)
	switch {
	case !d.desired.agreed():
		d.setCondition(v1alpha1.FeatureConflict, metav1.ConditionTrue, reasonReplicas, d.desired.dispute)
	case !d.inTransition() && d.out.disagreement:
		d.setCondition(v1alpha1.FeatureConflict, metav1.ConditionTrue, reasonComponents, joinFew(d.disagreeing()))
	case !d.inTransition() && d.out.status.UseEvaluationTime != nil && before != nil && before.Reason == reasonComponents:
		d.setCondition(v1alpha1.FeatureConflict, before.Status, before.Reason, before.Message)
	default:
		d.setCondition(v1alpha1.FeatureConflict, metav1.ConditionFalse, reasonAgreement, "")
	}
}

// setSafety sets Dangling, SafeToUpgrade and SafeToDowngrade.
func (d *decider) setSafety() {
	var left int64
	if d.out.status.DanglingReferences != nil && valueOf(d.out.status.State) == v1alpha1.ValueDisabled {
		left = d.out.status.DanglingReferences.Count
	}
	if left > 0 {
		d.setCondition(v1alpha1.FeatureDangling, metav1.ConditionTrue, reasonDangling, fmt.Sprintf("%d stored objects use the feature", left))
	} else {
		d.setCondition(v1alpha1.FeatureDangling, metav1.ConditionFalse, reasonNoDangling, "")
	}
	d.setSafe(v1alpha1.FeatureSafeToUpgrade, left, d.in.definition.dataChangingSteps(d.out.status.Version, false))
	d.setSafe(v1alpha1.FeatureSafeToDowngrade, left, d.in.definition.dataChangingSteps(d.out.status.Version, true))
}

// setSafe sets a condition on which other versions depend. Losing are the tasks of the other version that change stored data.
func (d *decider) setSafe(kind string, left int64, losing string) {
	status, reason, message := metav1.ConditionFalse, "", ""
	switch on := valueOf(d.out.status.State) == v1alpha1.ValueEnabled; {
	case d.inTransition():
		reason, message = reasonTransition, "the feature is "+string(d.out.status.State)
	case meta.IsStatusConditionTrue(d.out.status.Conditions, v1alpha1.FeatureConflict):
		reason, message = reasonConflict, "servers or components disagree about the feature"
	case d.versions.description != "":
		reason, message = reasonVersions, "a change of version is under way: "+d.versions.description
	case d.versions.waiting:
		reason, message = reasonVersions, "the tasks of a change of version are about to begin"
	case left > 0:
		reason, message = reasonDangling, "stored objects use the feature although it is Off"
	case on && (d.out.status.Stability == v1alpha1.StabilityAlpha || d.out.status.Stability == v1alpha1.StabilityPreAlpha):
		reason, message = "AlphaOn", "an alpha feature is On, and may be another or gone in the other version"
	case on && d.out.status.Stability == v1alpha1.StabilityDeprecated:
		reason, message = "DeprecatedOn", "a deprecated feature is On, and may be gone in the other version"
	case on && losing != "":
		reason, message = reasonDataLoss, "the feature is On, and the change of version would change stored data: "+losing
	default:
		status, reason = metav1.ConditionTrue, reasonSafe
	}
	d.setCondition(kind, status, reason, message)
}

// markOrphaned marks a feature that no live replica knows, and removes an old one. A feature that is On stays unless its references were
// counted: no live replica can count them any more.
func (d *decider) markOrphaned() {
	left := d.out.status.DanglingReferences
	clean := d.out.status.State == v1alpha1.StateOff && left == nil ||
		(d.out.status.State == v1alpha1.StateOff || d.out.status.State == v1alpha1.StateOn) && left != nil && left.Count == 0
	// While Available is True, the API server refuses the deletion.
	available := meta.IsStatusConditionTrue(d.out.status.Conditions, v1alpha1.FeatureAvailable)
	if clean && !available && expired(d.out.status.Component, d.out.status.Version, d.in.replicas, d.in.retention) {
		d.out.remove = true
		return
	}
	if d.taskRun() != nil && !d.taskRun().ended {
		d.out = decision{cancel: true}
		return
	}
	d.out.outcomeTaken = true
	d.setCondition(v1alpha1.FeatureAvailable, metav1.ConditionFalse, reasonNotAnnounced, "no live server knows the feature; the last that did had version "+d.out.status.Version)
	d.setCondition(v1alpha1.FeatureSettled, metav1.ConditionUnknown, reasonNotAnnounced, "no live server says what is wished")
	d.setCondition(v1alpha1.FeatureConflict, metav1.ConditionFalse, reasonNotAnnounced, "")
	d.setSafety()
}
