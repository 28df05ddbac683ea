// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Fields has what can be wrong with a gated field.
type Fields struct {
	// +featureGate=GadgetColor
	Required *string `json:"required,omitempty"`
	// +featureGate=GadgetColor
	// +optional
	AlwaysWritten *string `json:"alwaysWritten"`
	// +featureGate=GadgetColor
	// +optional
	NoTag *string
	// +featureGate=GadgetColor
	// +optional
	NotInJSON *string `json:"-"`
	// +featureGate=GadgetColor
	// +optional
	AString string `json:"aString,omitempty"`
	// +featureGate=GadgetColor
	// +optional
	AStruct Inner `json:"aStruct,omitempty"`
	// +featureGate=GadgetColor
	// +optional
	AnArray [2]string `json:"anArray,omitempty"`
	// +featureGate=GadgetColor
	// +optional
	// +default="red"
	Default *string `json:"default,omitempty"`
	// +featureGate=GadgetColor
	// +optional
	// +kubebuilder:default=red
	OtherDefault *string `json:"otherDefault,omitempty"`
	// +featureGate=GadgetColor
	// +optional
	*Inner `json:",inline"`
}

// Inner is part of others.
type Inner struct {
	Size int32 `json:"size"`
}
