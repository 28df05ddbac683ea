// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build annex_release_early

package leadership

const waitForRunnables = false
