// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/klog/v2"

	wire "github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/registry/native/coordination"
	"github.com/kube-annex/annex/registry/resource"
)

// askTimeout is how long the host may take to answer. Writes are answered within a minute, and leave time for the write itself.
const askTimeout = 10 * time.Second

// InTransaction has the fence key of the Lease compared in the transactions of the request's writes, exactly. The Leases must be
// in the etcd that the writes go to.
func InTransaction(metrics *Metrics) Check {
	return func(ctx context.Context, term wire.Term) (context.Context, error) {
		return resource.WithFence(ctx, resource.Fence{
			Key: coordination.FenceKey(term.Lease.Namespace, term.Lease.Name), Value: term.Value(),
			Refused: func(current *string) error {
				if current == nil {
					return metrics.refused(ctx, term, nil)
				}
				now, err := wire.ParseValue(term.Lease, *current)
				if err != nil {
					return apierrors.NewInternalError(fmt.Errorf("read the fence key of Lease %s: %w", term.Lease, err))
				}
				return metrics.refused(ctx, term, &now)
			},
		}), nil
	}
}

// AskHost reads the Lease from the host before the write, with quorum: best effort, since the Lease may pass on in between.
func AskHost(host coordinationclient.LeasesGetter, metrics *Metrics) Check {
	return func(ctx context.Context, term wire.Term) (context.Context, error) {
		asking, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		// Without a resourceVersion the host answers with what is committed, not from a cache.
		lease, err := host.Leases(term.Lease.Namespace).Get(asking, term.Lease.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, metrics.refused(ctx, term, nil)
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return nil, unknown(term, fmt.Errorf("this server may not read it on its host; give the server the right to get leases, as `annex register` does: %w", err))
		case err != nil:
			return nil, unknown(term, err)
		}
		if now := wire.Current(lease); now.Value() != term.Value() {
			return nil, metrics.refused(ctx, term, &now)
		}
		return ctx, nil
	}
}

// unknown refuses a write that may be late.
func unknown(term wire.Term, err error) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf(
		"whether the term of Lease %s held by %s goes on is not known, so the write was refused: %v", term.Lease, term.Holder, err))
}

// refused counts and logs a late write and returns what its client gets.
func (m *Metrics) refused(ctx context.Context, term wire.Term, now *wire.Term) error {
	m.lateWrites.Inc()
	err := term.Refuse(now)
	klog.FromContext(ctx).V(2).Info("Refused a late write", "reason", err.Error())
	return err
}
