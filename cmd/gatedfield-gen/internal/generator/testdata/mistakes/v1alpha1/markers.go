// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Markers has what can be wrong with a marker.
type Markers struct {
	// +featureGate=GadgetColour
	// +optional
	UnknownGate *string `json:"unknownGate,omitempty"`
	// +featureGate=GadgetOther
	// +optional
	NoGate *string `json:"noGate,omitempty"`
	// +featureGate=GadgetColor,onOff=Reject
	// +optional
	UnknownOption *string `json:"unknownOption,omitempty"`
	// +featureGate=GadgetColor,whenOff=reject
	// +optional
	UnknownPolicy *string `json:"unknownPolicy,omitempty"`
	// +featureGate=GadgetColor,whenOff=Drop,whenOff=Reject
	// +optional
	TwoPolicies *string `json:"twoPolicies,omitempty"`
	// +featureGate=
	// +optional
	NoName *string `json:"noName,omitempty"`
	// +featureGate
	// +optional
	NoValue *string `json:"noValue,omitempty"`
	// +featuregate=GadgetColor
	// +optional
	Misspelt *string `json:"misspelt,omitempty"`
	// +featureGate=GadgetColor
	// +featureGate=GadgetBolts
	// +optional
	TwoGates *string `json:"twoGates,omitempty"`
	// +featureGate=GadgetColour,whenOff=Never,always
	Everything string `json:"everything"`
}
