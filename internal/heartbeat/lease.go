// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package heartbeat

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/internal/logonce"
	"github.com/kube-annex/annex/internal/workloop"
)

// Lease is the Lease by which a process says that it lives. One goroutine at a time uses it.
type Lease struct {
	Client coordinationclient.LeaseInterface
	Name   string
	// Holder is unique to the process.
	Holder string
	// Duration is written into the Lease, rounded up to seconds.
	Duration time.Duration
	// FieldManager owns the fields; empty means the default of the client.
	FieldManager string
	// Now is the time that is written into the Lease.
	Now func() time.Time
	// Decorate sets labels and annotations; nil sets none.
	Decorate func(lease *coordinationv1.Lease)
	// Refuse returns an error if the process must not displace the holder of a Lease that it has held before; nil displaces every holder.
	Refuse func(lease *coordinationv1.Lease) error

	// last is the Lease as this process wrote it; nil if the Lease has to be read.
	last *coordinationv1.Lease
	// wasHeld reports that a write has succeeded, and wasTried that one was tried.
	wasHeld, wasTried bool
}

// firstRetry is the delay after the first failed renewal; it doubles with each further one.
const firstRetry = 200 * time.Millisecond

// Run renews the Lease at an interval until the context ends, and retries failed renewals after at most maxRetry. A failure is logged when
// its error differs from the previous one.
func (l *Lease) Run(ctx context.Context, c clock.Clock, interval, maxRetry time.Duration) {
	logger := klog.FromContext(ctx).WithValues("lease", l.Name)
	var logged logonce.Error
	renew := func(ctx context.Context) error {
		renewal, cancel := context.WithTimeout(ctx, interval)
		defer cancel()
		err := l.Renew(renewal)
		if err == nil && logged.Changed(nil) {
			logger.Info("Renewed the Lease of this process again")
		}
		return err
	}
	workloop.Repeat{Interval: interval, FirstRetry: min(firstRetry, maxRetry), LastRetry: maxRetry, Clock: c}.Run(ctx, renew, func(err error) {
		if logged.Changed(err) {
			logger.Info("Could not renew the Lease of this process; trying again", "reason", err.Error())
		}
	})
}

// Renew writes the Lease, and creates a missing one. It displaces another holder, such as a former process of the same name, unless Refuse
// objects.
func (l *Lease) Renew(ctx context.Context) error {
	lease := l.last.DeepCopy()
	l.last, l.wasTried = nil, true
	if lease == nil {
		found, err := l.Client.Get(ctx, l.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			found, err = l.Client.Create(ctx, l.renewed(&coordinationv1.Lease{}), metav1.CreateOptions{FieldManager: l.FieldManager})
			if err != nil { // The typed client returns an empty object with an error.
				return fmt.Errorf("create lease %s: %w", l.Name, err)
			}
			l.last, l.wasHeld = found, true
			return nil
		}
		if err != nil {
			return fmt.Errorf("read lease %s: %w", l.Name, err)
		}
		if l.Refuse != nil && l.wasHeld && ptr.Deref(found.Spec.HolderIdentity, "") != l.Holder {
			if err = l.Refuse(found); err != nil {
				return err
			}
		}
		lease = found
	}
	updated, err := l.Client.Update(ctx, l.renewed(lease), metav1.UpdateOptions{FieldManager: l.FieldManager})
	if err != nil {
		return fmt.Errorf("update lease %s: %w", l.Name, err)
	}
	l.last, l.wasHeld = updated, true
	return nil
}

// renewed sets what this process says in the Lease.
func (l *Lease) renewed(lease *coordinationv1.Lease) *coordinationv1.Lease {
	now := metav1.NewMicroTime(l.Now().Truncate(time.Microsecond))
	lease.Name = l.Name
	if l.Decorate != nil {
		l.Decorate(lease)
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") != l.Holder {
		lease.Spec.HolderIdentity, lease.Spec.AcquireTime = &l.Holder, &now
	}
	lease.Spec.RenewTime = &now
	lease.Spec.LeaseDurationSeconds = ptr.To(int32((l.Duration + time.Second - 1) / time.Second))
	return lease
}

// Release deletes the Lease unless another process holds it, so that observers need not wait for its expiry.
func (l *Lease) Release(ctx context.Context) error {
	if !l.wasTried {
		return nil
	}
	for {
		err := l.delete(ctx)
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err) || ctx.Err() != nil:
			return fmt.Errorf("delete lease %s: %w", l.Name, err)
		}
	}
}

// delete reads the Lease if its state is not known, since a renewal that was cut off may have been stored.
func (l *Lease) delete(ctx context.Context) error {
	lease := l.last
	l.last = nil
	if lease == nil {
		var err error
		if lease, err = l.Client.Get(ctx, l.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") != l.Holder {
			return nil
		}
	}
	return l.Client.Delete(ctx, l.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion}})
}
