// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package helm pins the Helm that test/compatibility/clients builds and runs: its go.mod names the command as a tool. It is a module of its own because
// Helm needs much that Annex does not.
package helm
