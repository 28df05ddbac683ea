// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/fencing"
)

// edits are what people and scripts do to Leases. The last ones are lies, from which only the fence protects.
var edits = []func(*coordinationv1.Lease){
	nil, // delete it
	func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = ptr.To("") },
	func(lease *coordinationv1.Lease) { lease.Spec.HolderIdentity = nil },
	func(lease *coordinationv1.Lease) {
		lease.Spec.HolderIdentity = ptr.To(fmt.Sprintf("intruder_%d_1", time.Now().UnixNano()))
		lease.Spec.LeaseDurationSeconds = ptr.To[int32](1)
	},
	func(lease *coordinationv1.Lease) {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Hour).Truncate(time.Microsecond)}
	},
	func(lease *coordinationv1.Lease) {
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(time.Hour).Truncate(time.Microsecond)}
	},
	func(lease *coordinationv1.Lease) { lease.Spec.LeaseDurationSeconds = ptr.To[int32](1) },
	func(lease *coordinationv1.Lease) {
		lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 3)
	},
	func(lease *coordinationv1.Lease) { lease.Spec.LeaseTransitions = ptr.To[int32](0) },
	func(lease *coordinationv1.Lease) { lease.Spec = coordinationv1.LeaseSpec{} },
	func(lease *coordinationv1.Lease) {
		term := fencing.Current(lease).Value()
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, fencing.ReleasedAnnotation, term)
		lease.Spec.HolderIdentity = ptr.To("")
	},
}

const lies = 1

// editLease changes the Lease of some group. That the server does not answer, or someone else is faster, does not matter.
func editLease(ctx context.Context, l *lane) error {
	known := len(edits)
	if l.options.Plain {
		known -= lies
	}
	group, edit := l.groups[l.random.IntN(len(l.groups))], edits[l.random.IntN(known)]
	ctx, cancel := context.WithTimeout(ctx, l.options.Timings.LeaseDuration)
	defer cancel()
	leases := l.admin.Load().CoordinationV1().Leases(l.options.Namespace)
	if edit == nil {
		_ = leases.Delete(ctx, group, metav1.DeleteOptions{})
		return nil
	}
	lease, err := leases.Get(ctx, group, metav1.GetOptions{})
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	edit(lease)
	_, _ = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return nil
}
