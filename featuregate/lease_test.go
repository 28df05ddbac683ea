// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

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
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
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

// TestTheLeaseIsDeletedAtTheEnd also if the last write was cut off, and nobody knows whether it was made. Otherwise all who ask would
// wait for this process until the Lease expires.
func TestTheLeaseIsDeletedAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before func(l *lease, api *oneLease)
		left   bool
	}{
		"never begun":      {before: func(*lease, *oneLease) {}},
		"written":          {before: func(l *lease, _ *oneLease) { _ = l.write(t.Context(), ""); _ = l.write(t.Context(), "1") }},
		"cut off at first": {before: func(l *lease, api *oneLease) { api.cutOff = true; _ = l.write(t.Context(), "") }},
		"an answer cut off": {before: func(l *lease, api *oneLease) {
			_ = l.write(t.Context(), "")
			api.cutOff = true
			_ = l.write(t.Context(), "1")
		}},
		"taken by another": {before: func(l *lease, api *oneLease) {
			_ = l.write(t.Context(), "")
			theirs := &lease{options: l.options, client: api, logger: klog.Logger{}}
			_ = theirs.write(t.Context(), "")
		}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &oneLease{}
			l := &lease{options: &Options{Component: "c", Instance: "i", Version: "v1", Namespace: "n", Clock: clock.RealClock{}}, client: api, logger: klog.Logger{}}
			tc.before(l, api)
			l.letGo(t.Context())
			if left := api.stored != nil; left != tc.left {
				t.Errorf("the Lease is left: %t, want %t", left, tc.left)
			}
		})
	}
}
