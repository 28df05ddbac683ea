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

func (d *decision) set(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&d.status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message,
		ObservedGeneration: d.feature.Generation, LastTransitionTime: metav1.NewTime(d.now),
	})
}

// conclude sets the conditions of a feature that is announced.
func (d *decision) conclude(know []said) {
	d.set(v1alpha1.FeatureAvailable, metav1.ConditionTrue, reasonAnnounced, fmt.Sprintf("announced by %s %s", know[0].component, highest(know).Version))
	d.setConflict()
	if d.recheck {
		d.forgetDisagreeing() // What they said stands in the condition until they have been asked.
	}
	switch {
	case d.inTransition():
		d.set(v1alpha1.FeatureSettled, metav1.ConditionFalse, reasonTransition, d.tasksLeft())
	case !d.wish.agreed():
		d.set(v1alpha1.FeatureSettled, metav1.ConditionFalse, reasonConflict, "the state stays until all replicas want the same")
	case valueOf(d.status.State) != d.wish.value:
		d.set(v1alpha1.FeatureSettled, metav1.ConditionFalse, reasonTransition, "a transition is about to begin")
	case d.versions.waiting:
		d.set(v1alpha1.FeatureSettled, metav1.ConditionFalse, reasonVersions, "the tasks of the change of version wait until all replicas are of one: "+d.versions.who)
	default:
		d.set(v1alpha1.FeatureSettled, metav1.ConditionTrue, reasonSettled, "")
	}
	d.setSafety()
}

func (d *decision) tasksLeft() string {
	if len(d.status.Tasks) == 1 {
		return fmt.Sprintf("the last task, %s, is left", d.status.Tasks[0].Name)
	}
	return fmt.Sprintf("%d tasks are left, of which %s is the first", len(d.status.Tasks), d.status.Tasks[0].Name)
}

func (d *decision) setConflict() {
	before := meta.FindStatusCondition(d.status.Conditions, v1alpha1.FeatureConflict)
	switch {
	case !d.wish.agreed():
		d.set(v1alpha1.FeatureConflict, metav1.ConditionTrue, reasonReplicas, d.wish.dispute)
	case !d.inTransition() && d.disagreement:
		d.set(v1alpha1.FeatureConflict, metav1.ConditionTrue, reasonComponents, few(d.disagreeing()))
	case !d.inTransition() && d.status.UseEvaluationTime != nil && before != nil && before.Reason == reasonComponents:
		d.set(v1alpha1.FeatureConflict, before.Status, before.Reason, before.Message)
	default:
		d.set(v1alpha1.FeatureConflict, metav1.ConditionFalse, reasonAgreement, "")
	}
}

// setSafety sets Dangling, and what follows from all that is known.
func (d *decision) setSafety() {
	var left int64
	if d.status.DanglingReferences != nil && valueOf(d.status.State) == v1alpha1.ValueDisabled {
		left = d.status.DanglingReferences.Count
	}
	if left > 0 {
		d.set(v1alpha1.FeatureDangling, metav1.ConditionTrue, reasonDangling, fmt.Sprintf("%d stored objects use the feature", left))
	} else {
		d.set(v1alpha1.FeatureDangling, metav1.ConditionFalse, reasonNoDangling, "")
	}
	d.setSafe(v1alpha1.FeatureSafeToUpgrade, left, d.local.losing(d.status.Version, false))
	d.setSafe(v1alpha1.FeatureSafeToDowngrade, left, d.local.losing(d.status.Version, true))
}

// setSafe sets a condition on which other versions depend. Losing are the tasks of the other version that change stored data.
func (d *decision) setSafe(kind string, left int64, losing string) {
	status, reason, message := metav1.ConditionFalse, "", ""
	switch on := valueOf(d.status.State) == v1alpha1.ValueEnabled; {
	case d.inTransition():
		reason, message = reasonTransition, "the feature is "+string(d.status.State)
	case meta.IsStatusConditionTrue(d.status.Conditions, v1alpha1.FeatureConflict):
		reason, message = reasonConflict, "servers or components disagree about the feature"
	case d.versions.who != "":
		reason, message = reasonVersions, "a change of version is under way: "+d.versions.who
	case d.versions.waiting:
		reason, message = reasonVersions, "the tasks of a change of version are about to begin"
	case left > 0:
		reason, message = reasonDangling, "stored objects use the feature although it is Off"
	case on && (d.status.Stability == v1alpha1.StabilityAlpha || d.status.Stability == v1alpha1.StabilityPreAlpha):
		reason, message = "AlphaOn", "an alpha feature is On, and may be another or gone in the other version"
	case on && d.status.Stability == v1alpha1.StabilityDeprecated:
		reason, message = "DeprecatedOn", "a deprecated feature is On, and may be gone in the other version"
	case on && losing != "":
		reason, message = reasonDataLoss, "the feature is On, and the change of version would change stored data: "+losing
	default:
		status, reason = metav1.ConditionTrue, reasonSafe
	}
	d.set(kind, status, reason, message)
}

// orphan marks a feature that no live replica knows, and has it removed when it is old.
func (d *decision) orphan() {
	settled := d.status.State == v1alpha1.StateOn || d.status.State == v1alpha1.StateOff
	nothingLeft := d.status.DanglingReferences == nil || d.status.DanglingReferences.Count == 0
	if settled && nothingLeft && expired(d.status.Version, d.replicas, d.retention) {
		d.remove = true
		return
	}
	if d.attempt != nil && !d.attempt.ended {
		d.change = change{cancel: true}
		return
	}
	d.took = true
	d.set(v1alpha1.FeatureAvailable, metav1.ConditionFalse, reasonNotAnnounced, "no live server knows the feature; the last that did had version "+d.status.Version)
	d.set(v1alpha1.FeatureSettled, metav1.ConditionUnknown, reasonNotAnnounced, "no live server says what is wished")
	d.set(v1alpha1.FeatureConflict, metav1.ConditionFalse, reasonNotAnnounced, "")
	d.setSafety()
}
