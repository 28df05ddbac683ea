// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package membership runs three clusters and the hub of their set.
package membership
