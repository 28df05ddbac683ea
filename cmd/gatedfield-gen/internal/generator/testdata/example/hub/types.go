// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub has the hub types, some of which are shaped otherwise than the served.
package hub

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/example/shared"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Gadget is a kind.
type Gadget struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   *GadgetSpec
	Status GadgetStatus
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// GadgetList is no kind of its own.
type GadgetList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []Gadget
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Crate is a kind that has a type in common with Gadget.
type Crate struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Content []Part
}

// GadgetSpec has fields of all shapes.
type GadgetSpec struct {
	Shape

	Color *Color

	Size int32

	Tags map[string]string

	Parts    []Part
	Pointers []*Part
	Spare    Part
	Grid     map[string][]Part
	Zones    map[string]*Zone
	Remote   map[string]Zone
	Nested   Zones

	Root     *Tree
	Fastener shared.Fastener
}

// Color is a named string.
type Color string

// Zones is a named map.
type Zones map[string]Zone

// Shape is part of what has it.
type Shape struct {
	Sides []int32
}

// Part is in lists and maps, and in two kinds.
type Part struct {
	Name     string
	Material *string
	Bolts    []Bolt
}

// Bolt is in gated fields only.
type Bolt struct {
	Alloy *string
}

// Zone is in maps.
type Zone struct {
	Size int32
	Note *string
}

// Tree contains itself, directly and by way of Branch, which does so too.
type Tree struct {
	Color *Color

	Left     *Tree
	Children []Tree
	Named    map[string]Tree
	Branch   *Branch
}

// Branch contains itself.
type Branch struct {
	Inner []Branch
	Tree  *Tree
}

// GadgetStatus is what there is.
type GadgetStatus struct {
	Conditions []metav1.Condition
	Summary    *string
}
