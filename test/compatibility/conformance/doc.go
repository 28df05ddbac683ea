// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance runs Kubernetes' own end-to-end specs, unmodified, against `annex up`. The file specs.txt says of each of them
// whether it is run, and if not, what it needs that a control plane does not have.
package conformance
