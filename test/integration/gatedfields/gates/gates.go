// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates has the feature gates of the kinds under test/integration/gatedfields/api. It stands for a third party's, so Annex's own gates
// are elsewhere.
package gates

import (
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
)

const (
	// WidgetColor gates what says something about colour.
	WidgetColor featuregate.Feature = "WidgetColor"
	// WidgetMaterial gates what says something about material.
	WidgetMaterial featuregate.Feature = "WidgetMaterial"
	// WidgetBolts gates the bolts of parts.
	WidgetBolts featuregate.Feature = "WidgetBolts"
)

// New returns all gates, off.
func New() (featuregate.MutableVersionedFeatureGate, error) {
	first := version.MajorMinor(1, 0)
	gates := featuregate.NewVersionedFeatureGate(first)
	alpha := featuregate.VersionedSpecs{{Version: first, Default: false, PreRelease: featuregate.Alpha}}
	return gates, gates.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{
		WidgetColor: alpha, WidgetMaterial: alpha, WidgetBolts: alpha,
	})
}
