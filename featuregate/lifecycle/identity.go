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
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// fieldManager owns what the engine writes.
const fieldManager = "feature-lifecycle"

// releaseTimeout is how long the end of the process may have to wait for an API that does not answer.
const releaseTimeout = 5 * time.Second

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
	// held tells that it has written the Lease, and tried that it may have.
	held, tried bool
}

// run renews the Lease until the context ends.
func (i *identity) run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithValues("lease", klog.KRef(i.options.Namespace, i.options.leaseName()))
	for said := ""; ctx.Err() == nil; {
		wait := i.options.Timings.RenewInterval
		err := i.renew(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if now := err.Error(); now != said {
				said = now
				logger.Error(err, "Could not renew the Lease of this replica, which leads no features without it; trying again")
			}
			wait = min(wait, i.options.Timings.Poll)
		case err == nil && said != "":
			logger.Info("The Lease of this replica is renewed again")
			said = ""
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
	i.lease, i.tried = nil, true
	if lease == nil {
		found, err := i.leases.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			var created *coordinationv1.Lease
			created, err = i.leases.Create(ctx, i.fill(&coordinationv1.Lease{}), metav1.CreateOptions{FieldManager: fieldManager})
			if err == nil { // With an error there is an object without content.
				i.lease, i.held = created, true
			}
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

// release deletes the Lease, so that nobody waits for it to expire. What became of a renewal that was cut off is not known, so the Lease
// may have to be read.
func (i *identity) release(ctx context.Context) {
	if !i.tried {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(i.options.Timings.RenewInterval, releaseTimeout))
	defer cancel()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		lease := i.lease
		i.lease = nil
		if lease == nil {
			var err error
			if lease, err = i.leases.Get(ctx, i.options.leaseName(), metav1.GetOptions{}); err != nil {
				return err
			}
			if ptr.Deref(lease.Spec.HolderIdentity, "") != i.holder {
				return nil
			}
		}
		options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}}
		return i.leases.Delete(ctx, lease.Name, options)
	})
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Could not delete the Lease of this replica; it will expire", "err", err)
	}
}
