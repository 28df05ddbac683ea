// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
)

// Reasons of the condition Reserved.
const (
	reasonReserved = "Reserved"
	reasonTaken    = "TakenByAnother"
	reasonAway     = "HubUnreachable"
	reasonRefused  = "RefusedByHub"
	reasonNoID     = "NoID"

	actionReserve = "Reserve"
)

// reserve makes sure of the reservation of a member and tells by its claim what came of it. It returns the reservation's name.
func (c *Controller) reserve(ctx context.Context, set *v1alpha1.ClusterClaim) (string, error) {
	id, err := c.claim.Other(ctx, v1alpha1.ClaimID)
	if err != nil {
		return "", err
	}
	if id == nil {
		return "", c.tell(ctx, set, metav1.ConditionFalse, reasonNoID, fmt.Sprintf(
			"The cluster has no id; create the ClusterClaim %s.", v1alpha1.ClaimID))
	}
	name := v1alpha1.ReservationName(set.Spec.Value, id.Spec.Value)
	err = c.hub.Reserve(ctx, hub.Membership{Set: set.Spec.Value, ID: id.Spec.Value, Cluster: c.cluster, Claim: set.UID}, false)
	held, away := (*hub.HeldError)(nil), (*hub.AwayError)(nil)
	switch {
	case err == nil:
		return name, c.tell(ctx, set, metav1.ConditionTrue, reasonReserved, fmt.Sprintf(
			"The id %q is reserved for this cluster in the set %q.", id.Spec.Value, set.Spec.Value))
	case errors.As(err, &held):
		return name, c.tell(ctx, set, metav1.ConditionFalse, reasonTaken, fmt.Sprintf(
			"Two members of the set have the same id: %v; leave the set by deleting the ClusterClaim %s, choose another id, and join again, here or there.", err, v1alpha1.ClaimClusterSet))
	case ctx.Err() != nil:
		return name, err
	}
	if condition := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ClaimReserved); condition != nil && condition.Status != metav1.ConditionUnknown {
		return name, err // what it says is still what is known
	}
	reason, message := reasonRefused, err.Error()
	if errors.As(err, &away) {
		reason, message = reasonAway, "The hub does not answer; it is asked again until it does."
	}
	return name, errors.Join(err, c.tell(ctx, set, metav1.ConditionUnknown, reason, message))
}

// tell sets the condition Reserved, and writes an Event if it says that something is wrong for the first time.
func (c *Controller) tell(ctx context.Context, set *v1alpha1.ClusterClaim, status metav1.ConditionStatus, reason, message string) error {
	changed, err := c.claim.SetCondition(ctx, set, metav1.Condition{Type: v1alpha1.ClaimReserved, Status: status, Reason: reason, Message: message})
	if err == nil && changed && status != metav1.ConditionTrue {
		c.claim.Warn(ctx, set, actionReserve, reason, message)
	}
	return err
}
