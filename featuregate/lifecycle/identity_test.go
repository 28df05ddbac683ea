// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"strconv"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// oneLease is an API with room for one Lease. With cutOff, writes are done and their answers are lost.
type oneLease struct {
	coordinationclient.LeaseInterface
	stored *coordinationv1.Lease
	writes int
	cutOff bool
}

func (o *oneLease) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	if o.stored == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, name)
	}
	return o.stored.DeepCopy(), nil
}

func (o *oneLease) write(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	o.writes++
	o.stored = lease.DeepCopy()
	o.stored.UID, o.stored.ResourceVersion = "one", strconv.Itoa(o.writes)
	if o.cutOff {
		return &coordinationv1.Lease{}, context.Canceled // as typed clients do
	}
	return o.stored.DeepCopy(), nil
}

func (o *oneLease) Create(_ context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return o.write(lease)
}

func (o *oneLease) Update(_ context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return o.write(lease)
}

func (o *oneLease) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if _, err := o.Get(ctx, name, metav1.GetOptions{}); err != nil {
		return err
	}
	if p := options.Preconditions; p != nil && *p.ResourceVersion != o.stored.ResourceVersion {
		return apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, name, errors.New("it has changed"))
	}
	o.stored = nil
	return nil
}

// TestTheLeaseIsDeletedAtTheEnd also if the last renewal was cut off, and nobody knows whether it was made.
func TestTheLeaseIsDeletedAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before func(i *identity, api *oneLease)
		left   bool
	}{
		"never begun":      {before: func(*identity, *oneLease) {}},
		"renewed":          {before: func(i *identity, _ *oneLease) { _ = i.renew(t.Context()); _ = i.renew(t.Context()) }},
		"cut off at first": {before: func(i *identity, api *oneLease) { api.cutOff = true; _ = i.renew(t.Context()) }},
		"a renewal cut off": {before: func(i *identity, api *oneLease) {
			_ = i.renew(t.Context())
			api.cutOff = true
			_ = i.renew(t.Context())
		}},
		"written by somebody": {before: func(i *identity, api *oneLease) { _ = i.renew(t.Context()); _, _ = api.write(api.stored) }},
		"taken by another": {before: func(i *identity, api *oneLease) {
			_ = i.renew(t.Context())
			theirs := api.stored.DeepCopy()
			theirs.Spec.HolderIdentity = ptr.To("other")
			_, _ = api.write(theirs)
		}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &oneLease{}
			i := &identity{
				options: &Options{Component: "c", Instance: "i", Namespace: "n", Clock: clock.RealClock{}, Timings: Timings{}.withDefaults()},
				leases:  api, others: newLivenesses(clock.RealClock{}, 0), holder: "me",
			}
			tc.before(i, api)
			i.release(t.Context())
			if left := api.stored != nil; left != tc.left {
				t.Errorf("the Lease is left: %t, want %t", left, tc.left)
			}
		})
	}
}
