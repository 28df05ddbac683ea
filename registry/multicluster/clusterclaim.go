// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kube-annex/annex/apis/multicluster"
	"github.com/kube-annex/annex/apis/multicluster/validation"
	"github.com/kube-annex/annex/registry/resource"
)

var clusterClaims = resource.Kind[*multicluster.ClusterClaim]{
	Plural:     "clusterclaims",
	Singular:   "clusterclaim",
	ShortNames: []string{"cc"},
	Scope:      resource.Cluster,
	NewList:    func() runtime.Object { return &multicluster.ClusterClaimList{} },

	Validate:             validation.ValidateClusterClaim,
	ValidateUpdate:       validation.ValidateClusterClaimUpdate,
	ValidateStatusUpdate: validation.ValidateClusterClaimStatusUpdate,
	Rules:                pairRules,

	Columns: []resource.Column[*multicluster.ClusterClaim]{
		{Name: "Value", Description: "First line of the claim's value, at most 64 characters of it.", Of: firstLine},
	},
}

// firstLine returns what fits into a table of the claim's value.
func firstLine(claim *multicluster.ClusterClaim) any {
	line, _, _ := strings.Cut(claim.Spec.Value, "\n")
	line = strings.TrimSuffix(line, "\r")
	if runes := []rune(line); len(runes) > 64 {
		return string(runes[:64])
	}
	return line
}
