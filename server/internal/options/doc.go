// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options holds what both servers of Annex, the extension apiserver and the control plane, are configured
// with: a file a concern, each with flags, a Validate that reports every mistake together with its fix, and an
// ApplyTo for the configuration of a generic apiserver. It is not a stable API.
package options
