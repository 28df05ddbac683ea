// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclaims

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
)

const (
	// reportingController is who Events are from.
	reportingController = "annex.io/clusterclaims"
	// maxNote is how many bytes the note of an Event may have, and maxInstance the name of who writes it.
	maxNote, maxInstance = 1024, 128
)

// Warn writes an Event about the claim. Events tell people what conditions say as well, so it does not matter if the host serves none.
func (c *Claim) Warn(ctx context.Context, claim *v1alpha1.ClusterClaim, action, reason, note string) {
	now := time.Now()
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", claim.Name, now.UnixNano()), Namespace: metav1.NamespaceDefault},
		EventTime:  metav1.NewMicroTime(now),
		Type:       corev1.EventTypeWarning, Action: action, Reason: reason, Note: cut(note, maxNote),
		ReportingController: reportingController, ReportingInstance: cut(c.instance, maxInstance),
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "ClusterClaim", Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
		},
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := c.events.Create(ctx, event, metav1.CreateOptions{}); err != nil {
		klog.FromContext(ctx).V(2).Info("Wrote no Event", "claim", claim.Name, "reason", err)
	}
}

// cut keeps the beginning of a text that is too long. What it is used for is plain ASCII.
func cut(text string, length int) string { return text[:min(len(text), length)] }
