// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package generator writes the table of gated fields beside served API types. It is the program cmd/gatedfield-gen, importable so
// that it can be part of another one.
//
// A field of a served type, or of any struct in it, is gated by a marker:
//
//	// +featureGate=WidgetColor
//	// +optional
//	Color *string `json:"color,omitempty"`
//
// and +featureGate=WidgetColor,whenOff=Reject where dropping it from a write would do harm. The gate has to be a constant of the
// type k8s.io/component-base/featuregate.Feature in the package that --gates-package names, or that the types' own doc.go
// names with
//
//	// +featureGates=example.com/project/gates
//
// The field has to be a pointer, a slice or a map, +optional with omitempty, and without a default. In lists, maps, embedded
// structs and types that contain themselves it works as well. Group and version are what +groupName and the package's name
// say, kinds are the structs with TypeMeta, ObjectMeta and a DeepCopyObject, and the types need names in OpenAPI
// (+k8s:openapi-model-package). If the package has a hub (+k8s:conversion-gen), its types must have the fields by the same Go
// names. Markers count in the packages that the generator is run on; name packages of nested types too.
//
// The result is func GatedFields() []gatedfield.Field in zz_generated.gatedfields.go. Whatever is wrong fails the run, with file and
// line, and nothing is written.
package generator
