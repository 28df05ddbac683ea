// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"context"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/registry/resource"
)

// Joining is asked before a cluster joins a set: before clusterset.k8s.io is created, and after everything else that can
// refuse it. The id is the one that the claim is committed with: if it changes meanwhile, nothing is written, and Joining is
// asked again with the new one. A dry run is to leave nothing behind. An error refuses the claim, as it is.
type Joining func(ctx context.Context, set, id *multicluster.ClusterClaim, dryRun bool) error

// InstallFor returns what adds the group's kinds to a server that asks before its cluster joins a set. Nil asks nobody.
func InstallFor(joining Joining) func(*resource.Group) error {
	return func(group *resource.Group) error {
		claims := clusterClaims
		if joining != nil {
			claims.Rules.Create = joining.after(claims.Rules.Create)
		}
		return install(group, claims)
	}
}

type (
	claimPeers = resource.Peers[*multicluster.ClusterClaim]
	createRule = func(ctx context.Context, peers claimPeers, claim *multicluster.ClusterClaim) error
)

// after asks once the rule has been passed, about the very id that the rule has bound the write to.
func (j Joining) after(rule createRule) createRule {
	return func(ctx context.Context, peers claimPeers, claim *multicluster.ClusterClaim) error {
		if claim.Name != multicluster.ClaimClusterSet {
			return rule(ctx, peers, claim)
		}
		// A member's reservation is not that of a claim that will not be stored.
		if _, member, err := peers.Get(ctx, multicluster.ClaimClusterSet); err != nil {
			return err
		} else if member {
			return rule(ctx, peers, claim)
		}
		noting := &notingPeers{claimPeers: peers}
		if err := rule(ctx, noting, claim); err != nil || noting.id == nil {
			return err
		}
		return j(ctx, claim, noting.id, resource.IsDryRun(ctx))
	}
}

// notingPeers notes the id that was read through it.
type notingPeers struct {
	claimPeers
	id *multicluster.ClusterClaim
}

func (n *notingPeers) Get(ctx context.Context, name string) (*multicluster.ClusterClaim, bool, error) {
	claim, exists, err := n.claimPeers.Get(ctx, name)
	if err == nil && exists && name == multicluster.ClaimID {
		n.id = claim
	}
	return claim, exists, err
}
