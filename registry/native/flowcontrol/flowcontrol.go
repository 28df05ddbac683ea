// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package flowcontrol serves FlowSchema and PriorityLevelConfiguration, by which this server and extension servers queue
// requests.
package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

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
