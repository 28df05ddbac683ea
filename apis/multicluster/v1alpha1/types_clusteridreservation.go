// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterIDReservation holds one cluster id in one set of clusters for one cluster, on the hub of the set. Its name is
// made from both (the hexadecimal SHA-256 of the set, a zero byte and the id), so the same id cannot be reserved twice in
// a set. A member creates it before it joins and deletes it after it left. It never expires: a cluster that is cut off
// from the hub is still a member.
type ClusterIDReservation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. metadata.name is the hexadecimal SHA-256 of spec.clusterSet, a zero
	// byte and spec.clusterID, as printed by: printf '%s\0%s' SET ID | sha256sum
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// spec says which id is reserved and for whom. It cannot be changed.
	// +required
	Spec ClusterIDReservationSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`

	// status is what the hub knows about the reservation.
	// +optional
	Status ClusterIDReservationStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterIDReservationList is a list of ClusterIDReservations.
type ClusterIDReservationList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// items are the ClusterIDReservations.
	Items []ClusterIDReservation `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// ClusterIDReservationSpec says which id is reserved and for whom.
type ClusterIDReservationSpec struct {
	// clusterSet is the set of clusters, the value of the member's clusterset.k8s.io claim: a DNS-1123 subdomain of
	// at most 253 bytes.
	// +required
	ClusterSet string `json:"clusterSet" protobuf:"bytes,1,opt,name=clusterSet"`

	// clusterID is the id that is reserved, the value of the member's id.k8s.io claim: a DNS-1123 label.
	// +required
	ClusterID string `json:"clusterID" protobuf:"bytes,2,opt,name=clusterID"`

	// clusterUID tells the member from all other clusters whatever its id: the uid of its kube-system namespace.
	// +required
	ClusterUID types.UID `json:"clusterUID" protobuf:"bytes,3,opt,name=clusterUID,casttype=k8s.io/apimachinery/pkg/types.UID"`

	// claimUID is the uid of the clusterset.k8s.io claim with which the member joined. It tells this membership from a
	// later one, so that leaving never frees what was reserved anew.
	// +required
	ClaimUID types.UID `json:"claimUID" protobuf:"bytes,4,opt,name=claimUID,casttype=k8s.io/apimachinery/pkg/types.UID"`
}

// ClusterIDReservationStatus is what the hub knows about a reservation.
type ClusterIDReservationStatus struct {
	// owner is the name of the user who made the reservation, set by the hub from the authenticated user. Others need
	// the verb reserve on clusteridreservations to delete it. Once set it cannot be changed.
	// +optional
	Owner string `json:"owner,omitempty" protobuf:"bytes,1,opt,name=owner"`
}

// ReservationName returns the name of the ClusterIDReservation of an id in a set: the hexadecimal SHA-256 of the set, a
// zero byte and the id. Neither may contain a zero byte, so no two pairs share a name.
func ReservationName(set, id string) string {
	sum := sha256.Sum256([]byte(set + "\x00" + id))
	return hex.EncodeToString(sum[:])
}
