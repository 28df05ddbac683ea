// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserverlease

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
)

// Collector deletes Leases of replicas that are no more.
type Collector struct {
	leases typedcoordinationv1.LeaseInterface
	server string
	now    func() time.Time
}

// NewCollector returns what deletes those of replicas of the server.
func NewCollector(leases typedcoordinationv1.LeaseInterface, server string) *Collector {
	return &Collector{leases: leases, server: server, now: time.Now}
}

// Run looks for Leases that have run out until the context ends.
func (c *Collector) Run(ctx context.Context) error {
	for {
		if err := c.collect(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).V(2).Info("Leases of servers that are no more could not be deleted; trying again", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(collection):
		}
	}
}

func (c *Collector) collect(ctx context.Context) error {
	list, err := c.leases.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{Label: c.server}.String()})
	if err != nil {
		return fmt.Errorf("list Leases: %w", err)
	}
	var errs []error
	for i := range list.Items {
		lease := &list.Items[i]
		if !expired(lease, c.now()) {
			continue
		}
		// Whoever renews it at this moment keeps it.
		unchanged := metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}
		err := c.leases.Delete(ctx, lease.Name, metav1.DeleteOptions{Preconditions: &unchanged})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("delete the Lease %s: %w", lease.Name, err))
		}
	}
	return errors.Join(errs...)
}

// expired is also one that does not say until when it holds, or was renewed by a clock that was set back since: it would stay for as long. A
// replica with such a clock makes its Lease again.
func expired(lease *coordinationv1.Lease, now time.Time) bool {
	spec := lease.Spec
	if spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return true
	}
	holds := time.Duration(*spec.LeaseDurationSeconds) * time.Second
	return spec.RenewTime.Add(holds).Before(now) || spec.RenewTime.After(now.Add(holds))
}
