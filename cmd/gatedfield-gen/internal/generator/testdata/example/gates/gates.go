// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gates has the gates of the example.
package gates

import "k8s.io/component-base/featuregate"

const (
	Color    featuregate.Feature = "GadgetColor"
	Material featuregate.Feature = "GadgetMaterial"
	Bolts    featuregate.Feature = "GadgetBolts"
)

// Other is no gate.
const Other = "GadgetOther"
