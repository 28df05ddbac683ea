// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/featuregate"
	"github.com/kube-annex/annex/internal/heartbeat"
)

// fieldManager owns what the engine writes.
const fieldManager = "feature-lifecycle"

// releaseTimeout bounds the delay of the process's end by an API that does not answer.
const releaseTimeout = 5 * time.Second

// newIdentity returns the Lease by which the other replicas observe this one. A former process of the same instance is displaced, but not
// one that started later.
func (e *Engine) newIdentity(announcement string) *heartbeat.Lease {
	o := &e.options
	return &heartbeat.Lease{
		Client: e.leases, Name: o.leaseName(), Holder: o.Instance + "_" + strings.ToLower(rand.Text()[:10]), Duration: o.Timings.LeaseDuration,
		FieldManager: fieldManager, Now: o.Clock.Now,
		Decorate: func(lease *coordinationv1.Lease) {
			lease.Namespace = o.LeaseNamespace
			metav1.SetMetaDataLabel(&lease.ObjectMeta, announcerLabel, o.Component)
			metav1.SetMetaDataLabel(&lease.ObjectMeta, featuregate.LabelNamespace, o.Namespace)
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, announcedAnnotation, announcement)
		},
		Refuse: func(lease *coordinationv1.Lease) error {
			if !e.replicaLeases.IsLive(o.LeaseNamespace, lease.Name) {
				return nil
			}
			return fmt.Errorf("the process %s has the same instance %s; give each replica its own", ptr.Deref(lease.Spec.HolderIdentity, ""), o.Instance)
		},
	}
}

func (e *Engine) releaseIdentity(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, min(e.options.Timings.RenewInterval, releaseTimeout))
	defer cancel()
	if err := e.identity.Release(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("Could not delete the Lease of this replica; it will expire", "err", err)
	}
}
