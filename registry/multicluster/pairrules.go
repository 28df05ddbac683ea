// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/registry/resource"
)

// pairRules keep the promise of KEP-2149 that the cluster's id exists unchanged for as long as the cluster is a member of
// a set: id.k8s.io and clusterset.k8s.io are read and written in one transaction. A claim that is being deleted, held by
// a finalizer, still exists.
var pairRules = resource.Rules[*multicluster.ClusterClaim]{
	Create: func(ctx context.Context, peers resource.Peers[*multicluster.ClusterClaim], claim *multicluster.ClusterClaim) error {
		if claim.Name != multicluster.ClaimClusterSet {
			return nil
		}
		id, exists, err := peers.Get(ctx, multicluster.ClaimID)
		switch {
		case err != nil:
			return err
		case !exists:
			return invalid(claim, field.Forbidden(field.NewPath("metadata", "name"),
				"a cluster needs an id before it can join a set; create the ClusterClaim id.k8s.io first"))
		case id.DeletionTimestamp != nil:
			return invalid(claim, field.Forbidden(field.NewPath("metadata", "name"),
				"the ClusterClaim id.k8s.io is being deleted; wait until it is gone and create it anew before joining a set"))
		}
		return nil
	},
	Update: func(ctx context.Context, peers resource.Peers[*multicluster.ClusterClaim], claim, old *multicluster.ClusterClaim) error {
		if claim.Name != multicluster.ClaimID {
			return nil
		}
		changes := claim.Spec.Value != old.Spec.Value
		lastFinalizerGoes := old.DeletionTimestamp != nil && len(claim.Finalizers) == 0
		if !changes && !lastFinalizerGoes {
			return nil
		}
		set, member, err := peers.Get(ctx, multicluster.ClaimClusterSet)
		switch {
		case err != nil:
			return err
		case member && changes:
			return invalid(claim, field.Forbidden(field.NewPath("spec", "value"),
				fmt.Sprintf("the id cannot change while the cluster is a member of the set %q; leave the set first by deleting the ClusterClaim clusterset.k8s.io", set.Spec.Value)))
		case member:
			return invalid(claim, field.Forbidden(field.NewPath("metadata", "finalizers"),
				fmt.Sprintf("the id cannot go while the cluster is a member of the set %q; leave the set first by deleting the ClusterClaim clusterset.k8s.io", set.Spec.Value)))
		}
		warnAboutLifespan(ctx)
		return nil
	},
	Delete: func(ctx context.Context, peers resource.Peers[*multicluster.ClusterClaim], claim *multicluster.ClusterClaim) error {
		if claim.Name != multicluster.ClaimID {
			return nil
		}
		set, member, err := peers.Get(ctx, multicluster.ClaimClusterSet)
		if err != nil {
			return err
		}
		if member {
			return apierrors.NewForbidden(multicluster.Resource("clusterclaims"), claim.Name, fmt.Errorf(
				"the id cannot be deleted while the cluster is a member of the set %q; leave the set first by deleting the ClusterClaim clusterset.k8s.io", set.Spec.Value))
		}
		warnAboutLifespan(ctx)
		return nil
	},
}

func warnAboutLifespan(ctx context.Context) {
	warning.AddWarning(ctx, "", "id.k8s.io should live unchanged as long as the cluster; tools that know the cluster by its old id will lose it")
}

func invalid(claim *multicluster.ClusterClaim, errs ...*field.Error) error {
	return apierrors.NewInvalid(multicluster.Kind("ClusterClaim"), claim.Name, errs)
}
