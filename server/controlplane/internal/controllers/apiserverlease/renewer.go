// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserverlease

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/internal/heartbeat"
)

// releaseTimeout bounds the deletion of the Lease when the server stops.
const releaseTimeout = time.Second

// Renewer keeps the Lease of this replica.
type Renewer struct {
	lease  heartbeat.Lease
	exists <-chan struct{}
}

// NewRenewer returns a renewer of the Lease of a replica of the server. It starts when the namespace exists.
func NewRenewer(leases typedcoordinationv1.LeaseInterface, server, replica, hostname string, exists <-chan struct{}) *Renewer {
	return &Renewer{exists: exists, lease: heartbeat.Lease{
		Client: leases, Name: replica, Holder: replica + "_" + string(uuid.NewUUID()), Duration: duration, Now: time.Now,
		Decorate: func(lease *coordinationv1.Lease) {
			metav1.SetMetaDataLabel(&lease.ObjectMeta, Label, server)
			if len(validation.IsValidLabelValue(hostname)) == 0 {
				metav1.SetMetaDataLabel(&lease.ObjectMeta, corev1.LabelHostname, hostname)
			}
		},
	}}
}

// Run keeps the Lease until the context ends, and then deletes it if the server still serves that; otherwise the Lease expires.
func (r *Renewer) Run(ctx context.Context) {
	select {
	case <-r.exists:
	case <-ctx.Done():
		return
	}
	r.lease.Run(ctx, clock.RealClock{}, renewal, renewal)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := r.lease.Release(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("Could not delete the Lease of this server; it will expire", "reason", err.Error())
	}
}
