// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package measure is what the benchmark programs share: what processes cost, loads of concurrent clients, medians with their spread, and
// tables that are kept up to date in a Markdown file.
package measure
