// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaims

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/internal/warning"
)

// reportingController is the controller that Events name.
const reportingController = "annex.io/clusterclaims"

// Warn writes an Event about the claim. Conditions say the same, so a host without Events is fine.
func (c *Claim) Warn(ctx context.Context, claim *v1alpha1.ClusterClaim, action, reason, note string) {
	err := warning.Write(ctx, c.events, warning.Event{
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterClaim", Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		},
		Controller: reportingController, Instance: c.instance, Action: action, Reason: reason, Note: note,
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Could not write an Event", "claim", claim.Name, "reason", err)
	}
}
