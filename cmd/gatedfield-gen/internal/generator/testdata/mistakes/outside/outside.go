// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outside is not generated for.
package outside

// Type has a gated field, and one of somebody else's.
type Type struct {
	// +featureGate=GadgetColor
	// +optional
	Color *string `json:"color,omitempty"`
	// +featureGate=SomebodyElses
	// +optional
	Other *string `json:"other,omitempty"`
}
