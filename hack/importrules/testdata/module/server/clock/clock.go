// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock is a part of the server. It is not a stable API.
package clock

// Clock is a type that other packages name.
type Clock struct{}
