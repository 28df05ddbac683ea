// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	leaselibrary "k8s.io/component-helpers/apimachinery/lease"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// oneLease is an API with room for one Lease. With cutOff, writes are done and their answers are lost.
type oneLease struct {
	coordinationclient.LeaseInterface
	stored *coordinationv1.Lease
	reads  int
	writes int
	cutOff bool
}

func (o *oneLease) Get(_ context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	o.reads++
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

// takeOver has a successor write itself into the Lease.
func (o *oneLease) takeOver() {
	successor := o.stored.DeepCopy()
	successor.Spec.HolderIdentity = ptr.To("successor")
	_, _ = o.write(successor)
}

func newLease(api *oneLease) *Lease {
	return &Lease{Client: api, Name: "one", Holder: "me", Duration: 1500 * time.Millisecond, Now: time.Now}
}

// TestALeaseOfASuccessorStays and one of this process is deleted at its end, also if the answer to the last renewal was lost.
func TestALeaseOfASuccessorStays(t *testing.T) {
	t.Parallel()
	renew := func(l *Lease) { _ = l.Renew(t.Context()) }
	for name, tc := range map[string]struct {
		before func(l *Lease, api *oneLease)
		left   bool
	}{
		"never renewed":    {before: func(*Lease, *oneLease) {}},
		"renewed":          {before: func(l *Lease, _ *oneLease) { renew(l); renew(l) }},
		"cut off at first": {before: func(l *Lease, api *oneLease) { api.cutOff = true; renew(l) }},
		"a renewal cut off": {before: func(l *Lease, api *oneLease) {
			renew(l)
			api.cutOff = true
			renew(l)
		}},
		"written by a user": {before: func(l *Lease, api *oneLease) { renew(l); _, _ = api.write(api.stored) }},
		"taken by a successor": {before: func(l *Lease, api *oneLease) {
			renew(l)
			api.takeOver()
		}, left: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &oneLease{}
			l := newLease(api)
			tc.before(l, api)
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
			if left := api.stored != nil; left != tc.left {
				t.Errorf("the Lease is left: %t, want %t", left, tc.left)
			}
		})
	}
}

// leaseClient is a client whose Leases are api.
type leaseClient struct {
	kubernetes.Interface
	coordinationclient.CoordinationV1Interface
	api *oneLease
}

func (c leaseClient) CoordinationV1() coordinationclient.CoordinationV1Interface { return c }
func (c leaseClient) Leases(string) coordinationclient.LeaseInterface            { return c.api }

// TestTheLibraryDeletesTheLeaseOfASuccessor is why this package does not use it.
func TestTheLibraryDeletesTheLeaseOfASuccessor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run  func(ctx context.Context, api *oneLease)
		left bool
	}{
		"Lease": {func(ctx context.Context, api *oneLease) {
			l := newLease(api)
			l.Run(ctx, clock.RealClock{}, time.Second, time.Second)
			if err := l.Release(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		}, true},
		"k8s.io/component-helpers": {func(ctx context.Context, api *oneLease) {
			c := leaselibrary.NewController(clock.RealClock{}, leaseClient{api: api}, "me", 2, nil, time.Second, "one", "default", nil)
			c.Run(ctx)
			c.Stop()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := &oneLease{}
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { tc.run(ctx, api) })
				synctest.Wait()
				api.takeOver()
				stop()
				running.Wait()
				if left := api.stored != nil; left != tc.left {
					t.Errorf("the Lease of the successor is left: %t, want %t", left, tc.left)
				}
			})
		})
	}
}

// TestALeaseOfAPredecessorIsTakenOver, with the holder, the duration and what Decorate sets. A Lease that was lost later is taken again
// only if Refuse allows it.
func TestALeaseOfAPredecessorIsTakenOver(t *testing.T) {
	t.Parallel()
	api := &oneLease{stored: &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("predecessor"), LeaseDurationSeconds: ptr.To[int32](60)}}}
	l := newLease(api)
	refused := errors.New("another process has the name")
	l.Refuse = func(*coordinationv1.Lease) error { return refused }
	l.Decorate = func(lease *coordinationv1.Lease) { metav1.SetMetaDataLabel(&lease.ObjectMeta, "a", "b") }
	if err := l.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if spec := api.stored.Spec; *spec.HolderIdentity != "me" || *spec.LeaseDurationSeconds != 2 || spec.AcquireTime == nil || api.stored.Labels["a"] != "b" {
		t.Errorf("the Lease is %v, want one of this process for 2 s with a label", api.stored)
	}
	api.takeOver()
	l.last = nil
	if err := l.Renew(t.Context()); !errors.Is(err, refused) {
		t.Errorf("the renewal of a Lease that another process holds returned %v, want %v", err, refused)
	}
	l.Refuse = nil
	if err := l.Renew(t.Context()); err != nil || *api.stored.Spec.HolderIdentity != "me" {
		t.Errorf("the renewal returned %v, and the holder is %s", err, *api.stored.Spec.HolderIdentity)
	}
}

// TestARenewalReadsOnlyAfterAnError has a Lease read at first, and after a write with an unknown result.
func TestARenewalReadsOnlyAfterAnError(t *testing.T) {
	t.Parallel()
	api := &oneLease{}
	l := newLease(api)
	l.Duration = 30 * time.Second
	renew := func(reads int, fails bool) {
		t.Helper()
		if err := l.Renew(t.Context()); (err != nil) != fails || api.reads != reads {
			t.Errorf("error %v after %d reads, want %t after %d", err, api.reads, fails, reads)
		}
	}
	renew(1, false)
	renew(1, false)
	api.cutOff = true
	renew(1, true)
	api.cutOff = false
	renew(2, false)
	renew(2, false)
	if got := *api.stored.Spec.LeaseDurationSeconds; got != 30 {
		t.Errorf("the Lease lasts %d seconds, want 30", got)
	}
	l.Duration += time.Millisecond
	renew(2, false)
	if got := *api.stored.Spec.LeaseDurationSeconds; got != 31 {
		t.Errorf("the Lease of more than 30 seconds lasts %d, want 31", got)
	}
}
