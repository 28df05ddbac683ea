// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package integration tests Annex from the outside: through the host's aggregator, as kubectl and as Go programs see it.
package integration
