// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Strays has markers in the wrong places.
//
// +featureGate=GadgetColor
type Strays struct {
	Behind *string `json:"behind,omitempty"` // +featureGate=GadgetColor

	// +featureGate=GadgetColor

	// +optional
	Apart *string `json:"apart,omitempty"`

	Unnamed struct {
		// +featureGate=GadgetColor
		// +optional
		Color *string `json:"color,omitempty"`
	} `json:"unnamed"`
}

// +featureGate=GadgetColor

// Unused is in no kind.
type Unused struct {
	/*
	   color is in a comment of the other form.
	   +featureGate=GadgetColor
	   +optional
	*/
	Color *string `json:"color,omitempty"`
}
