// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// fieldManager owns what the engine writes.
const fieldManager = "feature-lifecycle"

// identity is the Lease by which the other replicas know this one.
type identity struct {
	options   *Options
	leases    coordinationclient.LeaseInterface
	others    *livenesses
	announced string
	// holder is unique to the process.
	holder string
	// lease is what this process wrote last; nil if it does not hold the Lease.
	lease *coordinationv1.Lease
	held  bool
}

// run renews the Lease until the context ends.
func (i *identity) run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for ctx.Err() == nil {
		wait := i.options.Timings.RenewInterval
		err := i.renew(ctx)
		if err != nil && ctx.Err() == nil {
			logger.Error(err, "Could not renew the Lease of this replica, which leads no features without it", "lease", klog.KRef(i.options.Namespace, i.options.leaseName()))
			wait = min(wait, i.options.Timings.Poll)
		}
		pause(ctx, i.options.Clock, wait)
	}
}

// renew writes the Lease. A former process of the same instance is displaced, but not one that appeared since: of two that run at the
// same time, the one that began later is right.
func (i *identity) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, i.options.Timings.RenewInterval)
	defer cancel()
	name := i.options.leaseName()
	lease := i.lease.DeepCopy()
	i.lease = nil
	if lease == nil {
		found, err := i.leases.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			i.lease, err = i.leases.Create(ctx, i.fill(&coordinationv1.Lease{}), metav1.CreateOptions{FieldManager: fieldManager})
			i.held = i.held || err == nil
			return err
		}
		if err != nil {
			return err
		}
		if holder := ptr.Deref(found.Spec.HolderIdentity, ""); i.held && holder != i.holder && i.others.isLive(name) {
			return fmt.Errorf("the process %s has the same instance %s; give each replica its own", holder, i.options.Instance)
		}
		lease = found
	}
	updated, err := i.leases.Update(ctx, i.fill(lease), metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		return err
	}
	i.lease, i.held = updated, true
	return nil
}

func (i *identity) fill(lease *coordinationv1.Lease) *coordinationv1.Lease {
	now := metav1.NewMicroTime(i.options.Clock.Now())
	lease.Name, lease.Namespace = i.options.leaseName(), i.options.Namespace
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[announcerLabel] = i.options.Component
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[announcedAnnotation] = i.announced
	if ptr.Deref(lease.Spec.HolderIdentity, "") != i.holder {
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime = &i.holder, &now
	}
	lease.Spec.RenewTime = &now
	lease.Spec.LeaseDurationSeconds = ptr.To(int32((i.options.Timings.LeaseDuration + time.Second - 1) / time.Second))
	return lease
}

// release deletes the Lease, so that nobody waits for it to expire.
func (i *identity) release(ctx context.Context) {
	if i.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, i.options.Timings.RenewInterval)
	defer cancel()
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &i.lease.UID, ResourceVersion: &i.lease.ResourceVersion}}
	if err := i.leases.Delete(ctx, i.lease.Name, options); err != nil {
		klog.FromContext(ctx).V(2).Info("Could not delete the Lease of this replica; it will expire", "err", err)
	}
}
