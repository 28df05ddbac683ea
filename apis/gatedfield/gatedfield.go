// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatedfield describes fields that may be used only while a feature permits it.
//
// An author marks a field of a served type with +featureGate=Name; cmd/gatedfield-gen writes a table of Fields beside the types.
// The table is read by whoever publishes the schema (server/openapi), stores the kind (registry/resource) or cleans what is
// stored (featuregate/lifecycle).
package gatedfield

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Policy is what happens to a write that sets a field whose feature does not permit it.
type Policy string

const (
	// Drop takes the field out of the object and warns; it is the default.
	Drop Policy = "Drop"
	// Reject refuses the write with a 422; for fields whose silent absence would do harm.
	Reject Policy = "Reject"
)

// Steps of a Path that are no property names.
const (
	// EachItem steps into every item of a list.
	EachItem = "[]"
	// EachValue steps into every value of a map.
	EachValue = "{}"
)

// Field is one gated field of one kind.
type Field struct {
	// Gate is the name of the feature that permits the field.
	Gate string
	// Kind is the served kind that has the field, directly or in a nested type.
	Kind schema.GroupVersionKind
	// Path is where the field is, in JSON names from the root, with EachItem and EachValue where it lies in lists and maps.
	Path []string
	// WhenOff is what happens to writes while the feature does not permit the field.
	WhenOff Policy
	// Model is the name of the OpenAPI model that has the field as its Property.
	Model, Property string
	// IsSet tells whether the object, of the served or the hub type, has the field anywhere.
	IsSet func(obj runtime.Object) bool
	// Clear takes the field out of the object, of the served or the hub type, wherever it has it.
	Clear func(obj runtime.Object)
}
