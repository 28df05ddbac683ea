// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !annex_release_early

package leadership

// waitForRunnables is what the safety of the package rests on. The build tag takes it away, to show that the checker of
// test/robustness/singlewriter notices.
const waitForRunnables = true
