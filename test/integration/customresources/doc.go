// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package customresources tests what a control plane does for kinds that CustomResourceDefinitions define, as clients see it. Kubernetes'
// own specs (test/compatibility/conformance) have cases for much of it; what is here is what they leave out, most of all what they need pods for.
package customresources
