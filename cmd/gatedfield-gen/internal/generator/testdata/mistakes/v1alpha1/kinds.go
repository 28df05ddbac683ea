// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/cmd/gatedfield-gen/internal/generator/testdata/mistakes/outside"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Kind has all mistakes.
type Kind struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Markers  Markers      `json:"markers"`
	Fields   Fields       `json:"fields"`
	Strays   Strays       `json:"strays"`
	Outside  outside.Type `json:"outside"`
	Anyone   OnlyServed   `json:"anyone"`
	Shaped   Shaped       `json:"shaped"`
	Endless  Endless      `json:"endless"`
	Flat     Flat         `json:"flat"`
	Internal Unseen       `json:"-"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// KindList is a list.
type KindList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Kind `json:"items"`

	// +featureGate=GadgetColor
	// +optional
	More *string `json:"more,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// Hubless has no hub type.
type Hubless struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +featureGate=GadgetColor
	// +optional
	Color *string `json:"color,omitempty"`
}

// NoObject is no kind, since it cannot be copied as one.
type NoObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +featureGate=GadgetColor
	// +optional
	Color *string `json:"color,omitempty"`
}

// OnlyServed is otherwise in the hub.
type OnlyServed struct {
	// +featureGate=GadgetColor
	// +optional
	Color *string `json:"color,omitempty"`
}

// Shaped has a field that is no pointer in the hub.
type Shaped struct {
	// +featureGate=GadgetColor
	// +optional
	Color *string `json:"color,omitempty"`
}

// Endless contains itself, and something else in the hub.
type Endless struct {
	// +featureGate=GadgetColor
	// +optional
	Color *string  `json:"color,omitempty"`
	Inner *Endless `json:"inner,omitempty"`
}

// Flat is a string in the hub.
type Flat struct {
	// +featureGate=GadgetColor
	// +optional
	Color *string `json:"color,omitempty"`
}

// Unseen is not in JSON.
type Unseen struct {
	// +featureGate=GadgetColor
	// +optional
	Color *string `json:"color,omitempty"`
}

// Generic is one of many types.
type Generic[T any] struct {
	// +featureGate=GadgetColor
	// +optional
	Color *T `json:"color,omitempty"`
}
