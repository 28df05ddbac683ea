// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gatedfield describes fields that may be used only while a feature permits it.
//
// An author marks a field of a served type with +featureGate=Name; cmd/gatedfield-gen writes a table of Fields, the function
// GatedFields, beside the types.
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

// Steps of Loops that do not occur in a Path.
const (
	LoopBegin = "("
	LoopOr    = "|"
	LoopEnd   = ")*"
)

// Field is one gated field at one place of one kind. A type that occurs at several places of a kind makes for several Fields.
type Field struct {
	// Gate is the name of the feature that permits the field.
	Gate string
	// Kind is the served kind that has the field, directly or in a nested type.
	Kind schema.GroupVersionKind
	// Path is where the field is, in JSON names from the root, with EachItem and EachValue where it lies in lists and maps.
	// Where a type contains itself, it is the path to the outermost of the fields; Loops has the rest.
	Path []string
	// Loops is Path again, with the detours that lead to the fields further inside, where a type on the way contains itself;
	// otherwise it is nil. What stands between LoopBegin and LoopEnd may be taken any number of times, none too, and
	// LoopOr separates alternatives.
	Loops []string
	// WhenOff is what happens to writes while the feature does not permit the field.
	WhenOff Policy
	// Model is the name of the OpenAPI model that has the field as its Property.
	Model, Property string
	// IsSet tells whether the object, of the served or the hub type, has the field anywhere. A list or map that is there and
	// empty is set.
	IsSet func(obj runtime.Object) bool
	// Clear takes the field out of the object, of the served or the hub type, wherever it has it.
	Clear func(obj runtime.Object)
}

// Covers tells whether a path leads to the field, at any depth, or to what is below it. The path is in property names and map
// keys, with EachItem for any item of a list.
func (f Field) Covers(path []string) bool {
	pattern := f.Path
	if f.Loops != nil {
		pattern = f.Loops
	}
	return match(pattern, path, func([]string) bool { return true })
}

// match tells whether the pattern takes the beginning of the path, and what follows takes the rest.
func match(pattern, path []string, then func(rest []string) bool) bool {
	if len(pattern) == 0 {
		return then(path)
	}
	if pattern[0] != LoopBegin {
		return len(path) > 0 && takes(pattern[0], path[0]) &&
			match(pattern[1:], path[1:], then)
	}
	detours, after := cutLoop(pattern)
	var again func(path []string) bool
	again = func(path []string) bool {
		if match(after, path, then) {
			return true
		}
		for _, detour := range detours {
			if match(detour, path, func(rest []string) bool { return len(rest) < len(path) && again(rest) }) {
				return true
			}
		}
		return false
	}
	return again(path)
}

func takes(step, element string) bool {
	switch step {
	case EachValue:
		return element != EachItem
	default:
		return element == step
	}
}

// cutLoop splits a pattern that begins with a loop into the alternatives of the loop and what follows it.
func cutLoop(pattern []string) (detours [][]string, after []string) {
	depth, start := 0, 1
	for i, step := range pattern {
		switch step {
		case LoopBegin:
			depth++
		case LoopOr:
			if depth == 1 {
				detours, start = append(detours, pattern[start:i]), i+1
			}
		case LoopEnd:
			if depth--; depth == 0 {
				return append(detours, pattern[start:i]), pattern[i+1:]
			}
		}
	}
	return nil, nil
}
