// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/example/shared"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Gadget is a kind.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GadgetSpec   `json:"spec"`
	Status GadgetStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// GadgetList is no kind of its own.
type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Gadget `json:"items"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Crate is a kind that has a type in common with Gadget.
type Crate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Content []Part `json:"content,omitempty"`
}

// GadgetSpec has fields of all shapes.
type GadgetSpec struct {
	Shape `json:",inline"`

	// color is gated.
	// +featureGate=GadgetColor
	// +optional
	Color *Color `json:"color,omitempty"`

	Size int32 `json:"size"`

	// +optional
	// +featureGate=GadgetMaterial,whenOff=Drop
	Tags map[string]string `json:"tags,omitempty"`

	Parts    []Part            `json:"parts,omitempty"`
	Pointers []*Part           `json:"pointers,omitempty"`
	Spare    *Part             `json:"spare,omitempty"`
	Grid     map[string][]Part `json:"grid,omitempty"`
	Zones    map[string]Zone   `json:"zones,omitempty"`
	Remote   map[string]*Zone  `json:"remote,omitempty"`
	Nested   Zones             `json:"nested,omitempty"`

	Root     *Tree           `json:"root,omitempty"`
	Fastener shared.Fastener `json:"fastener"`
}

// Color is a named string.
type Color string

// Zones is a named map.
type Zones map[string]Zone

// Shape is part of what has it.
type Shape struct {
	// sides is gated, and a list.
	//
	// +featureGate=GadgetBolts,whenOff=Reject
	// +listType=atomic
	// +optional
	Sides []int32 `json:"sides,omitempty"`
}

// Part is in lists and maps, and in two kinds.
type Part struct {
	Name string `json:"name"`
	// +featureGate=GadgetMaterial
	// +optional
	Material *string `json:"material,omitempty"`
	// bolts is gated, and so is a field inside.
	// +featureGate=GadgetBolts,whenOff=Reject
	// +optional
	Bolts []Bolt `json:"bolts,omitempty"`
}

// Bolt is in gated fields only.
type Bolt struct {
	// +featureGate=GadgetMaterial
	// +optional
	Alloy *string `json:"alloy,omitempty"`
}

// Zone is in maps.
type Zone struct {
	Size int32 `json:"size"`
	// +featureGate=GadgetMaterial
	// +optional
	Note *string `json:"note,omitempty"`
}

// Tree contains itself, directly and by way of Branch, which does so too.
type Tree struct {
	// +featureGate=GadgetColor
	// +optional
	Color *Color `json:"color,omitempty"`

	Left     *Tree           `json:"left,omitempty"`
	Children []Tree          `json:"children,omitempty"`
	Named    map[string]Tree `json:"named,omitempty"`
	Branch   *Branch         `json:"branch,omitempty"`

	hidden *Part
}

// Branch contains itself.
type Branch struct {
	Inner []Branch `json:"inner,omitempty"`
	Tree  *Tree    `json:"tree,omitempty"`
}

// GadgetStatus is what there is.
type GadgetStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// +featureGate=GadgetColor
	// +optional
	Summary *string `json:"summary,omitempty"`
}
