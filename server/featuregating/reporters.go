// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationapply "k8s.io/client-go/applyconfigurations/coordination/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/kube-annex/annex/featuregate"
	registry "github.com/kube-annex/annex/registry/features"
)

// reportersManager owns the fields of the Leases of reporters.
const reportersManager = "feature-reporters"

// reporters keeps the signs of life of reporters in Leases of the server's own namespace. All replicas write the same Leases, and each
// report overwrites what the former one of the process said.
type reporters struct {
	leases coordinationclient.LeaseInterface
}

// NewReporters returns a store of signs of life in Leases of the host.
func NewReporters(leases coordinationclient.LeasesGetter) registry.Reporters {
	return &reporters{leases.Leases(featuregate.LeaseNamespace)}
}

func leaseName(r registry.Reporter) string {
	return featuregate.LeaseName(r.Namespace, r.User, r.Component, r.Instance)
}

// Renew implements registry.Reporters.
func (s *reporters) Renew(ctx context.Context, r registry.Reporter) error {
	annotations := map[string]string{
		featuregate.AnnotationComponent: r.Component, featuregate.AnnotationVersion: r.Version, featuregate.AnnotationUser: r.User,
	}
	if r.Observed != "" {
		annotations[featuregate.AnnotationObserved] = r.Observed
	}
	lease := coordinationapply.Lease(leaseName(r), featuregate.LeaseNamespace).
		WithLabels(map[string]string{
			featuregate.LabelNamespace: r.Namespace, featuregate.LabelComponent: featuregate.LabelValue(r.Component), featuregate.LabelVersion: featuregate.LabelValue(r.Version),
		}).
		WithAnnotations(annotations).
		WithSpec(coordinationapply.LeaseSpec().
			WithHolderIdentity(r.Instance).WithLeaseDurationSeconds(int32(featuregate.LeaseDuration / time.Second)).WithRenewTime(metav1.NowMicro()))
	if _, err := s.leases.Apply(ctx, lease, metav1.ApplyOptions{FieldManager: reportersManager, Force: true}); err != nil {
		return fmt.Errorf("write lease %s/%s: %w", featuregate.LeaseNamespace, leaseName(r), err)
	}
	return nil
}

// Remove implements registry.Reporters.
func (s *reporters) Remove(ctx context.Context, r registry.Reporter) error {
	if err := s.leases.Delete(ctx, leaseName(r), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete lease %s/%s: %w", featuregate.LeaseNamespace, leaseName(r), err)
	}
	return nil
}
