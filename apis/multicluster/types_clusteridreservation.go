// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterIDReservation holds one cluster id in one set of clusters for one cluster, on the hub of the set.
type ClusterIDReservation struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   ClusterIDReservationSpec
	Status ClusterIDReservationStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// ClusterIDReservationList is a list of ClusterIDReservations.
type ClusterIDReservationList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []ClusterIDReservation
}

// ClusterIDReservationSpec says which id is reserved and for whom.
type ClusterIDReservationSpec struct {
	ClusterSet string
	ClusterID  string
	ClusterUID types.UID
	ClaimUID   types.UID
}

// ClusterIDReservationStatus is what the hub knows about a reservation.
type ClusterIDReservationStatus struct {
	Owner string
}
