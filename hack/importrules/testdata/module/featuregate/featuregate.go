// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package featuregate is a promised package that imports the server and names a type of it.
package featuregate

import "example.org/module/server/clock"

// Config has an exported field of a type that is not promised.
type Config struct {
	Clock  clock.Clock
	hidden clock.Clock
}

// Alias gives the type a promised name.
type Alias = clock.Clock

// New has a parameter of a type that is not promised.
func New(c clock.Clock) Config { return Config{Clock: c, hidden: newClock()} }

func newClock() clock.Clock { return clock.Clock{} }
