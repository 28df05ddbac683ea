// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

const (
	// firstRetry is how soon a renewal is tried again that failed; after that it waits twice as long each time, up to renewal.
	firstRetry = 200 * time.Millisecond
	// farewell is how long a server that stops tries to take its Lease away.
	farewell = time.Second
)

// Renewer keeps the Lease of this replica.
type Renewer struct {
	leases typedcoordinationv1.LeaseInterface
	name   string
	holder string
	labels map[string]string
	exists <-chan struct{}
	now    func() time.Time
}

// NewRenewer returns what keeps a Lease by the name of a replica of the server, once its namespace exists.
func NewRenewer(leases typedcoordinationv1.LeaseInterface, server, replica, hostname string, exists <-chan struct{}) *Renewer {
	r := &Renewer{
		leases: leases, name: replica, holder: replica + "_" + string(uuid.NewUUID()), exists: exists, now: time.Now,
		labels: map[string]string{Label: server},
	}
	if len(validation.IsValidLabelValue(hostname)) == 0 {
		r.labels[corev1.LabelHostname] = hostname
	}
	return r
}

// Run keeps the Lease until the context ends, and then takes it away.
func (r *Renewer) Run(ctx context.Context) {
	select {
	case <-r.exists:
	case <-ctx.Done():
		return
	}
	defer r.leave(ctx)
	var last *coordinationv1.Lease
	for retry := firstRetry; ; {
		next, wait := r.renew(ctx, last)
		if last = next; next == nil {
			wait, retry = retry, min(2*retry, renewal)
		} else {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// renew returns the Lease as it was written, or nil.
func (r *Renewer) renew(ctx context.Context, last *coordinationv1.Lease) (*coordinationv1.Lease, time.Duration) {
	next, err := r.write(ctx, last)
	if err != nil {
		if ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("The Lease that tells of this server could not be renewed; trying again", "lease", r.name, "reason", err.Error())
		}
		return nil, 0
	}
	return next, renewal
}

func (r *Renewer) write(ctx context.Context, last *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	if last == nil {
		var err error
		last, err = r.leases.Get(ctx, r.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return r.leases.Create(ctx, r.renewed(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: r.name}}), metav1.CreateOptions{})
		}
		if err != nil {
			return nil, fmt.Errorf("read it: %w", err)
		}
	}
	return r.leases.Update(ctx, r.renewed(last), metav1.UpdateOptions{})
}

func (r *Renewer) renewed(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	for key, value := range r.labels {
		metav1.SetMetaDataLabel(&lease.ObjectMeta, key, value)
	}
	lease.Spec.HolderIdentity = &r.holder
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(duration.Seconds()))
	lease.Spec.RenewTime = &metav1.MicroTime{Time: r.now()}
	return lease
}

// leave takes the Lease away if the server still serves that; else it runs out.
func (r *Renewer) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := r.leases.Delete(ctx, r.name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("The Lease that tells of this server stays until it runs out", "lease", r.name, "reason", err.Error())
	}
}
