// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims"
	"github.com/kube-annex/annex/controllers/clusterclaims/hub"
)

const (
	// longPause is the longest pause while the hub is away.
	longPause = 10 * time.Second
	// changedRecheck is how soon a reservation is looked at again that has changed meanwhile.
	changedRecheck = time.Second
)

// Controller keeps the reservations of one cluster.
type Controller struct {
	claim                 *clusterclaims.Claim
	hub                   *hub.Client
	clock                 clock.Clock
	interval, orphanAfter time.Duration

	// cluster is the cluster's uid once it is known.
	cluster types.UID
	stored  storedClaims
	idle    idleReservations
}

// New returns a controller. It starts nothing.
func New(options Options) (*Controller, error) {
	if options.Host == nil || options.Hub == nil {
		return nil, errors.New("keep reservations: options have no Host, or no Hub")
	}
	claim, err := clusterclaims.NewClaim(options.Host, v1alpha1.ClaimClusterSet)
	if err != nil {
		return nil, fmt.Errorf("keep reservations: %w", err)
	}
	c := &Controller{
		claim: claim, hub: options.Hub, clock: options.Clock,
		interval: cmp.Or(options.Interval, DefaultInterval), orphanAfter: cmp.Or(options.OrphanAfter, DefaultOrphanAfter),
	}
	if c.clock == nil {
		c.clock = clock.RealClock{}
	}
	return c, nil
}

// Run keeps reservations until the context ends, and returns when all of its work has ended.
func (c *Controller) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("clusterset-membership"))
	defer c.hub.Close()
	loop := clusterclaims.Loop{
		Claim: c.claim, Clock: c.clock, Work: c.keep, LongPause: longPause,
		Seen: func(claim *v1alpha1.ClusterClaim) { c.stored.add(claim.UID) },
	}
	loop.Run(ctx)
	return nil
}

// keep makes the reservation of the membership that there is, and frees those of memberships that are over.
func (c *Controller) keep(ctx context.Context) (time.Duration, error) {
	if c.cluster == "" {
		var err error
		if c.cluster, err = c.claim.ClusterUID(ctx); err != nil {
			return 0, err
		}
	}
	// What was stored before the claim is read, and is not what is read, is gone and never comes back.
	gone := c.stored.all()
	set, err := c.claim.Get(ctx)
	if err != nil {
		return 0, err
	}
	var wanted string
	if set != nil {
		delete(gone, set.UID)
		c.stored.add(set.UID)
		if wanted, err = c.reserve(ctx, set); err != nil {
			return 0, err
		}
	}
	return c.free(ctx, gone, wanted)
}

// free frees what no membership holds, except what may become one. It returns when to look again.
func (c *Controller) free(ctx context.Context, gone claims, wanted string) (time.Duration, error) {
	reservations, err := c.hub.Of(ctx, c.cluster)
	if err != nil {
		return 0, err
	}
	next := c.interval
	var errs []error
	for i := range reservations {
		r := &reservations[i]
		if r.Name == wanted || r.DeletionTimestamp != nil {
			continue
		}
		left := gone.has(r.HoldingClaim())
		if idle := c.idle.since(r, c.clock.Now()); !left && idle < c.orphanAfter {
			next = min(next, c.orphanAfter-idle)
			continue
		}
		err := c.hub.Free(ctx, r)
		switch {
		case errors.Is(err, hub.ErrChanged):
			next = min(next, changedRecheck) // a new membership may have taken it over
		case err != nil:
			errs = append(errs, fmt.Errorf("free the id %q in the set %q: %w", r.Spec.ClusterID, r.Spec.ClusterSet, err))
		default:
			klog.FromContext(ctx).Info("Freed an id at the hub", "set", r.Spec.ClusterSet, "id", r.Spec.ClusterID, "claimUID", r.HoldingClaim(), "left", left)
		}
	}
	c.stored.forget(gone, reservations)
	c.idle.keep(reservations)
	return next, errors.Join(errs...)
}
