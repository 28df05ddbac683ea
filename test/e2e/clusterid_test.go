// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/test/framework/poll"
)

// idIsProvisioned has controllers that run provide the cluster's id, and tell when somebody else has chosen another.
func idIsProvisioned(t *testing.T, a *annex) {
	t.Helper()
	system, err := host.Kubernetes.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claims := a.client.MulticlusterV1alpha1().ClusterClaims()
	provisioned := func(value string, status metav1.ConditionStatus) func(context.Context) error {
		return func(ctx context.Context) error {
			claim, err := claims.Get(ctx, v1alpha1.ClaimID, metav1.GetOptions{})
			if err != nil {
				return err
			}
			condition := meta.FindStatusCondition(claim.Status.Conditions, v1alpha1.ClaimProvisioned)
			if claim.Spec.Value != value || condition == nil || condition.Status != status {
				return fmt.Errorf("the id is %q, and the conditions are %v", claim.Spec.Value, claim.Status.Conditions)
			}
			return nil
		}
	}
	poll.Eventually(t, patience, "the id is the uid of kube-system", provisioned(string(system.UID), metav1.ConditionTrue))
	if _, err := claims.Patch(t.Context(), v1alpha1.ClaimID, types.MergePatchType, []byte(`{"spec":{"value":"mine"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the id of somebody else stays", provisioned("mine", metav1.ConditionFalse))
	poll.Eventually(t, patience, "an Event tells that they differ", func(ctx context.Context) error {
		events, err := host.Kubernetes.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=Differs"})
		if err != nil {
			return err
		}
		for i := range events.Items {
			if events.Items[i].Regarding.Name == v1alpha1.ClaimID {
				return nil
			}
		}
		return fmt.Errorf("there are %d Events with that reason, and none is about the claim", len(events.Items))
	})
}
