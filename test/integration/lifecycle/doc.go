// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests featuregate/lifecycle: engines of several replicas against one real Annex.
package lifecycle
