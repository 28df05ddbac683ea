// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jars is what the API server of a third party does about a kind of which the alpha and the beta version have nothing in
// common: a Jar's size is a text in v1alpha1 and a number in v1beta1, and no release can read what the other one stores. Each
// release runs an Engine, and the two tell it of the change in the same words (release.go).
//
// So that neither stumbles over what the other has stored, each version has a place of its own in etcd (places.go); while an upgrade
// rolls out, or is taken back, every replica goes on with what is its own. A release serves the other version, too, as
// leftovers (leftovers.go), which can be read, edited and removed, but not made. That is what lifecycle.ClearCollection removes them
// through, and what people save them from. Leftovers need not be understood, so even the older release can have them. No
// feature decides about leftovers, since they are there to be removed while use of the feature is not permitted.
package jars
