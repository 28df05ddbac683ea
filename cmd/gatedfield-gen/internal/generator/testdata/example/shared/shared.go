// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package shared has a type that kinds of other packages contain.
package shared

// Fastener has a gated field.
type Fastener struct {
	// +featureGate=GadgetBolts
	// +optional
	Thread *string `json:"thread,omitempty"`
}

// OpenAPIModelName returns the type's name in OpenAPI.
func (Fastener) OpenAPIModelName() string { return "com.example.shared.Fastener" }
