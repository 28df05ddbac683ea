// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle tests that every feature can be turned on, used, and turned off as if it had never been on, with servers that are
// killed on the way: Annex's own, and those of the example server.
package lifecycle
