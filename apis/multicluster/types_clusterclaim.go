// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// ClaimID is the name of the claim that holds the cluster's id.
	ClaimID = "id.k8s.io"
	// ClaimClusterSet is the name of the claim that says which set of clusters this cluster is a member of.
	ClaimClusterSet = "clusterset.k8s.io"
)

const (
	// ClaimProvisioned is the condition that a claim's value was provided by a controller.
	ClaimProvisioned = "Provisioned"
	// ClaimReserved is the condition that the cluster's id is reserved for this cluster on the hub of its set.
	ClaimReserved = "Reserved"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaim is one statement that the cluster makes about itself.
type ClusterClaim struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ClusterClaimSpec
	Status ClusterClaimStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaimList is a list of ClusterClaims.
type ClusterClaimList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ClusterClaim
}

// ClusterClaimSpec is what is claimed.
type ClusterClaimSpec struct {
	Value string
}

// ClusterClaimStatus is what the system found out about a claim.
type ClusterClaimStatus struct {
	ObservedGeneration int64
	Conditions         []metav1.Condition
}
