// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/fencing"
)

var (
	// errTaken: the Lease belongs to someone else now, or is gone. There is nothing to renew or release.
	errTaken = errors.New("the Lease is no longer held by this process")
	// errDuplicate: the Lease belongs to another process that has the same identity, such as a copy of this virtual machine.
	errDuplicate = fmt.Errorf("%w: another process renews the Lease under the same identity", errTaken)
	// errRaced: someone else has written the Lease first.
	errRaced = errors.New("someone else wrote the Lease first")
)

// lock reads and writes one Lease with the record semantics of client-go's leader election.
type lock struct {
	leases   coordinationclient.LeaseInterface
	name     types.NamespacedName
	now      func() time.Time
	duration time.Duration
}

// get returns nil where there is no Lease. The answer is that of a quorum.
func (l *lock) get(ctx context.Context) (*coordinationv1.Lease, error) {
	lease, err := l.leases.Get(ctx, l.name.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return lease, nil
	case apierrors.IsNotFound(err) && isAboutLease(err):
		return nil, nil
	}
	return nil, fmt.Errorf("read lease %s: %w", l.name, err)
}

// isAboutLease tells a Lease that does not exist from a namespace, or an API, that does not.
func isAboutLease(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "leases"
}

// acquire writes the holder into the Lease as it was seen, nil for none.
func (l *lock) acquire(ctx context.Context, seen *coordinationv1.Lease, holder string) (*coordinationv1.Lease, error) {
	now := l.microNow()
	if seen == nil {
		lease, err := l.leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.name.Namespace, Name: l.name.Name},
			Spec:       l.spec(holder, 0, now, now),
		}, metav1.CreateOptions{})
		switch {
		case err == nil:
			return lease, nil
		case apierrors.IsAlreadyExists(err):
			return nil, errRaced
		}
		return nil, fmt.Errorf("create lease %s: %w", l.name, err)
	}
	lease := seen.DeepCopy()
	delete(lease.Annotations, fencing.ReleasedAnnotation)
	lease.Spec = l.spec(holder, transitionsOf(seen)+1, now, now)
	lease, err := l.leases.Update(ctx, lease, metav1.UpdateOptions{})
	switch {
	case err == nil:
		return lease, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, errRaced
	}
	return nil, fmt.Errorf("update lease %s: %w", l.name, err)
}

func (l *lock) spec(holder string, transitions int32, acquired, renewed metav1.MicroTime) coordinationv1.LeaseSpec {
	return coordinationv1.LeaseSpec{
		HolderIdentity:       ptr.To(holder),
		LeaseDurationSeconds: ptr.To(int32(l.duration / time.Second)),
		AcquireTime:          &acquired,
		RenewTime:            &renewed,
		LeaseTransitions:     ptr.To(transitions),
	}
}

// microNow is the time as it comes back from storage.
func (l *lock) microNow() metav1.MicroTime {
	return metav1.MicroTime{Time: l.now().Truncate(time.Microsecond)}
}

// held is a Lease that this process has acquired. It is used by one goroutine at a time.
type heldLease struct {
	*lock
	lease *coordinationv1.Lease
	// unconfirmed are the renew times of writes without a response; one of them may be in the Lease.
	unconfirmed []metav1.MicroTime
	// newHolder is the Lease of the other holder that errTaken is about; nil if there is none.
	newHolder *coordinationv1.Lease
	// duplicate reports that the error was errDuplicate.
	duplicate bool
}

// renew writes a new renew time. errTaken says that it never will again; any other error that another try may do.
func (h *heldLease) renew(ctx context.Context) error {
	lease := h.lease.DeepCopy()
	lease.Spec.RenewTime = ptr.To(h.microNow())
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(h.duration / time.Second))
	return h.write(ctx, lease)
}

// release gives the Lease back and names the term that did, so that followers need not wait.
func (h *heldLease) release(ctx context.Context) error {
	term := fencing.Current(h.lease)
	lease := h.lease.DeepCopy()
	lease.Annotations = maps.Clone(lease.Annotations)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, fencing.ReleasedAnnotation, term.Value())
	now := h.microNow()
	lease.Spec.HolderIdentity = ptr.To("")
	lease.Spec.LeaseDurationSeconds = ptr.To[int32](1)
	lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
	return h.write(ctx, lease)
}

func (h *heldLease) write(ctx context.Context, lease *coordinationv1.Lease) error {
	written, err := h.leases.Update(ctx, lease, metav1.UpdateOptions{})
	if err == nil {
		h.lease, h.unconfirmed = written, nil
		return nil
	}
	err = fmt.Errorf("update lease %s: %w", h.name, err)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return h.reread(ctx, err)
	}
	// The server may have done it all the same.
	h.unconfirmed = append(h.unconfirmed, *lease.Spec.RenewTime)
	return err
}

// reread finds out what came between: an edit of something else, after which the next try succeeds, or the end of the term.
func (h *heldLease) reread(ctx context.Context, cause error) error {
	current, err := h.get(ctx)
	if err != nil {
		// The cause is not wrapped: after a conflict another try may be made at once, but not while reading fails.
		return fmt.Errorf("%s; then %w", cause.Error(), err)
	}
	h.newHolder = current
	switch {
	case current == nil, current.UID != h.lease.UID:
		return fmt.Errorf("%w: the Lease was deleted", errTaken)
	case holderOf(current) != holderOf(h.lease) || transitionsOf(current) != transitionsOf(h.lease):
		return fmt.Errorf("%w: the holder is now %q", errTaken, holderOf(current))
	case !h.wrote(current.Spec.RenewTime):
		h.duplicate = true
		return fmt.Errorf("%w %s; run no copies of a running process, and edit no Lease that is held", errDuplicate, holderOf(current))
	}
	if current.ResourceVersion == h.lease.ResourceVersion { // so that another try may fail as well
		return fmt.Errorf("%s, although the Lease is as it was", cause.Error())
	}
	h.lease, h.newHolder = current, nil
	return cause
}

func (h *heldLease) wrote(renewed *metav1.MicroTime) bool {
	return renewed.Equal(h.lease.Spec.RenewTime) ||
		slices.ContainsFunc(h.unconfirmed, func(t metav1.MicroTime) bool { return t.Equal(renewed) })
}
