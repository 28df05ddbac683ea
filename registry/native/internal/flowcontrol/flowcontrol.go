// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flowcontrol serves FlowSchema and PriorityLevelConfiguration, by which this server and extension servers queue
// requests.
package flowcontrol

import (
	"slices"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/registry/resource"
)

// GroupVersion is the version the kinds are served and stored in.
var GroupVersion = flowcontrolv1.SchemeGroupVersion

// Kinds lists the kinds of the group.
func Kinds() []resource.Served {
	return []resource.Served{flowSchemas().Served(), priorityLevels().Served()}
}

func defaultTo[T comparable](value *T, standard T) {
	var zero T
	if *value == zero {
		*value = standard
	}
}

func defaultPointer[T any](value **T, standard T) {
	if *value == nil {
		*value = &standard
	}
}

// validateConditions judges the conditions of a status by their types.
func validateConditions(types []string) field.ErrorList {
	var errs field.ErrorList
	for i, name := range types {
		at := field.NewPath("status", "conditions").Index(i).Child("type")
		if slices.Contains(types[:i], name) {
			errs = append(errs, field.Duplicate(at, name))
		}
		if name == "" {
			errs = append(errs, field.Required(at, ""))
		}
	}
	return errs
}
