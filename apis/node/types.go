// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Conditions of a NodeBalloon.
const (
	// NodeBalloonSettled is the condition that the balloon has the size that spec asks for.
	NodeBalloonSettled = "Settled"
	// NodeBalloonNodePresent is the condition that a node with the balloon's name exists.
	NodeBalloonNodePresent = "NodePresent"
)

// Reasons of the condition Settled.
const (
	// ReasonSettled means that the balloon has the size that spec asks for.
	ReasonSettled = "Settled"
	// ReasonPending means that the balloon's pod is not there yet, or that the change has not been seen.
	ReasonPending = "Pending"
	// ReasonResizing means that the kubelet is resizing the balloon.
	ReasonResizing = "Resizing"
	// ReasonDeferred means that the balloon does not fit beside the pods on the node now; it is tried again.
	ReasonDeferred = "Deferred"
	// ReasonReverted means that the balloon did not fit until the deadline and went back to what it holds.
	ReasonReverted = "Reverted"
	// ReasonInfeasible means that the balloon can never be this large on this node.
	ReasonInfeasible = "Infeasible"
	// ReasonDisplaced means that pods of higher priority took what the balloon held.
	ReasonDisplaced = "Displaced"
)

// ReclaimPolicy is what becomes of a balloon that shall grow, and for which the node makes no room until the deadline.
type ReclaimPolicy string

const (
	// ReclaimRevert means that the balloon goes back to what it holds and is not grown again until its spec or the node's
	// allocatable changes.
	ReclaimRevert ReclaimPolicy = "Revert"
	// ReclaimHold means that the balloon keeps asking, and that what it asks for is held from new pods.
	ReclaimHold ReclaimPolicy = "Hold"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeBalloon makes a node appear smaller than it is.
type NodeBalloon struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   NodeBalloonSpec
	Status NodeBalloonStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeBalloonList is a list of NodeBalloons.
type NodeBalloonList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []NodeBalloon
}

// NodeBalloonSpec is the size that is wished for; exactly one of nodeSize and balloonSize must be set.
type NodeBalloonSpec struct {
	NodeSize               corev1.ResourceList
	BalloonSize            corev1.ResourceList
	ReclaimDeadlineSeconds *int32
	ReclaimPolicy          *ReclaimPolicy
}

// NodeBalloonStatus is what became of the wish.
type NodeBalloonStatus struct {
	ObservedGeneration int64
	NodeUID            types.UID
	Allocatable        corev1.ResourceList
	Allocated          corev1.ResourceList
	Effective          corev1.ResourceList
	PodName            string
	Conditions         []metav1.Condition
}
