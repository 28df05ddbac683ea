// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

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

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaim is one statement that the cluster makes about itself: the object's name says about what, spec.value says
// what. Two names are well known. id.k8s.io is the cluster's id: a DNS-1123 label such as cluster-1 that should live as
// long as the cluster. clusterset.k8s.io is the set of clusters that this cluster is a member of: a DNS-1123 subdomain
// such as fleet.example.com.
//
// To join a set create id.k8s.io first and clusterset.k8s.io second. While the cluster is a member the id can be neither
// changed nor deleted, and the set cannot be changed: to leave the set, delete clusterset.k8s.io; the id is free in the
// very next request. Other names that end in .k8s.io, .kubernetes.io or sigs.k8s.io are reserved for Kubernetes. Every
// other DNS-1123 subdomain is yours.
type ClusterClaim struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. metadata.name says what the claim is about; it is a DNS-1123
	// subdomain.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// spec is what is claimed.
	// +required
	Spec ClusterClaimSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`

	// status is what the system found out about the claim.
	// +optional
	Status ClusterClaimStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterClaimList is a list of ClusterClaims.
type ClusterClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// items are the ClusterClaims.
	Items []ClusterClaim `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// ClusterClaimSpec is what is claimed.
type ClusterClaimSpec struct {
	// value is what the cluster says about itself: 1 to 131072 bytes of valid UTF-8 without the replacement
	// character U+FFFD. It is kept as it is; mind the trailing newline that many tools add. The value of id.k8s.io
	// is a DNS-1123 label (at most 63 characters, no dots), and that of clusterset.k8s.io a DNS-1123 subdomain of at
	// most 253 bytes, which cannot be changed.
	// +required
	Value string `json:"value" protobuf:"bytes,1,opt,name=value"`
}

// ClusterClaimStatus is what the system found out about a claim.
type ClusterClaimStatus struct {
	// observedGeneration is the metadata.generation that this status was written for.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`

	// conditions are the latest verdicts on the claim. Provisioned: the value was provided by a controller. Reserved:
	// the cluster's id is reserved for this cluster on the hub of its set, so no other member can use it.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,2,rep,name=conditions"`
}
