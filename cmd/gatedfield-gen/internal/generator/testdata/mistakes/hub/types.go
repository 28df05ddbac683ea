// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hub has the hub types.
package hub

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/mistakes/v1alpha1"
)

// Kind is the hub's.
type Kind struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Markers v1alpha1.Markers
	Fields  v1alpha1.Fields
	Anyone  Empty
	Shaped  Shaped
	Endless Endless
	Flat    string
}

// Empty lacks the field.
type Empty struct{}

// Shaped has a string for a pointer.
type Shaped struct {
	// +featureGate=GadgetColor
	Color string
}

// Endless ends.
type Endless struct {
	Color *string
	Inner *End
}

// End is the end.
type End struct {
	Color *string
}
