// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DefaultReclaimDeadlineSeconds is what a NodeBalloon without spec.reclaimDeadlineSeconds means.
const DefaultReclaimDeadlineSeconds = 60

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
// +enum
type ReclaimPolicy string

const (
	// ReclaimRevert means that the balloon goes back to what it holds and is not grown again until its spec or the node's
	// allocatable changes.
	ReclaimRevert ReclaimPolicy = "Revert"
	// ReclaimHold means that the balloon keeps asking, and that what it asks for is held from new pods.
	ReclaimHold ReclaimPolicy = "Hold"
)

// +genclient
// +genclient:nonNamespaced
// +genclient:method=UpdateResize,verb=update,subresource=resize
// +genclient:method=ApplyResize,verb=apply,subresource=resize
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeBalloon makes a node appear smaller than it is. A balloon pod on the node claims resources and uses none; what it
// claims does not exist for other pods. Inflating the balloon shrinks the node, deflating it lets the node grow, and no
// pod is evicted for either. The object's name is the node's name, so there is at most one for each node. The object may
// exist before its node and stays when its node goes.
//
// Autoscalers need no more than rights on the subresource nodeballoons/resize, which takes a NodeBalloon and changes the
// sizes in its spec alone.
type NodeBalloon struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata. metadata.name is the name of the node.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// spec is the size that is wished for. Set exactly one of nodeSize and balloonSize. To make a node with 8 CPUs
	// and 32Gi of memory appear as one with 6 CPUs and 24Gi, set nodeSize to {cpu: "6", memory: 24Gi}. To hold 2 CPUs
	// of it, whatever its size, set balloonSize to {cpu: "2"}. To give everything back, set balloonSize to
	// {cpu: "0"} or delete the object.
	// +required
	Spec NodeBalloonSpec `json:"spec" protobuf:"bytes,2,opt,name=spec"`

	// status is what became of the wish. It is written by the system, from what the node's kubelet granted.
	// +optional
	Status NodeBalloonStatus `json:"status,omitempty" protobuf:"bytes,3,opt,name=status"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NodeBalloonList is a list of NodeBalloons.
type NodeBalloonList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// items are the NodeBalloons.
	Items []NodeBalloon `json:"items" protobuf:"bytes,2,rep,name=items"`
}

// NodeBalloonSpec is the size that is wished for; exactly one of nodeSize and balloonSize must be set.
type NodeBalloonSpec struct {
	// nodeSize is the size that the node shall appear to have (target mode): cpu in cores (whole millicores, such as
	// "6" or 5500m) and memory in bytes (whole bytes, such as 24Gi), no other resource. The balloon takes what the node has
	// above that, and follows when the node's allocatable changes. For a resource that is not named, or is 0, the
	// balloon stays at its floor of 1m cpu and 16Mi memory, so the node keeps its size. A size above the node's
	// allocatable is accepted, and means that the balloon is deflated as far as it goes. An empty map is the same as
	// no nodeSize.
	// +optional
	NodeSize corev1.ResourceList `json:"nodeSize,omitempty" protobuf:"bytes,1,rep,name=nodeSize,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName,castvalue=k8s.io/apimachinery/pkg/api/resource.Quantity"`

	// balloonSize is how much the balloon shall hold (balloon mode), whatever the size of the node: cpu in cores (whole
	// millicores, such as "2" or 1500m) and memory in bytes (whole bytes, such as 8Gi), no other resource. A resource
	// that is not named, or is 0, stays at the balloon's floor of 1m cpu and 16Mi memory. An empty map is the same as
	// no balloonSize.
	// +optional
	BalloonSize corev1.ResourceList `json:"balloonSize,omitempty" protobuf:"bytes,2,rep,name=balloonSize,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName,castvalue=k8s.io/apimachinery/pkg/api/resource.Quantity"`

	// reclaimDeadlineSeconds is how many seconds a balloon that grows, and for which the node has no room, is kept
	// waiting for room before it gives up and goes back to what it holds. It cannot be negative. Absent means 60.
	// +optional
	ReclaimDeadlineSeconds *int32 `json:"reclaimDeadlineSeconds,omitempty" protobuf:"varint,3,opt,name=reclaimDeadlineSeconds"`

	// reclaimPolicy is what becomes of a balloon that grows, and for which the node makes no room within
	// reclaimDeadlineSeconds. Revert: the balloon goes back to what it holds, which new pods may then have the rest of,
	// and is not grown again until this spec or the node's allocatable changes. Hold: the balloon keeps asking until it
	// gets what it asks for, and all the while new pods are not scheduled into what it asks for. In neither case is a
	// pod evicted. Absent means Revert.
	//
	// This is an alpha field. A write that sets it loses it, with a warning, while the feature NodeBalloonReclaimPolicy
	// is off.
	// +featureGate=NodeBalloonReclaimPolicy
	// +optional
	ReclaimPolicy *ReclaimPolicy `json:"reclaimPolicy,omitempty" protobuf:"bytes,4,opt,name=reclaimPolicy,casttype=ReclaimPolicy"`
}

// NodeBalloonStatus is what became of the wish.
type NodeBalloonStatus struct {
	// observedGeneration is the metadata.generation that this status was written for. A smaller number than
	// metadata.generation means that the latest change of spec has not been seen yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty" protobuf:"varint,1,opt,name=observedGeneration"`

	// nodeUID is the uid of the node that this status is about; another node of the same name has another uid.
	// +optional
	NodeUID types.UID `json:"nodeUID,omitempty" protobuf:"bytes,2,opt,name=nodeUID,casttype=k8s.io/apimachinery/pkg/types.UID"`

	// allocatable is the node's own allocatable cpu and memory, balloon included.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty" protobuf:"bytes,3,rep,name=allocatable,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName,castvalue=k8s.io/apimachinery/pkg/api/resource.Quantity"`

	// allocated is the cpu and memory that the kubelet granted to the balloon.
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty" protobuf:"bytes,4,rep,name=allocated,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName,castvalue=k8s.io/apimachinery/pkg/api/resource.Quantity"`

	// effective is the size of the node as pods see it: allocatable less allocated.
	// +optional
	Effective corev1.ResourceList `json:"effective,omitempty" protobuf:"bytes,5,rep,name=effective,casttype=k8s.io/api/core/v1.ResourceList,castkey=k8s.io/api/core/v1.ResourceName,castvalue=k8s.io/apimachinery/pkg/api/resource.Quantity"`

	// podName is the name of the balloon's pod on the node, in the namespace kube-system.
	// +optional
	PodName string `json:"podName,omitempty" protobuf:"bytes,6,opt,name=podName"`

	// conditions are the latest verdicts on the balloon. Settled: the balloon has the size that spec asks for; if not,
	// its reason is Pending, Resizing, Deferred, Reverted, Infeasible or Displaced, and its message is the kubelet's
	// own. NodePresent: a node of this name exists.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type" protobuf:"bytes,7,rep,name=conditions"`
}
