// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock stands for a part of the server.
package clock
