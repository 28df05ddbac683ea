// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import "fmt"

// Bound is what a figure is held against.
type Bound struct {
	// AtMost says that the figure has to be at most Value; else it has to be at least that.
	AtMost bool
	Value  float64
	// Unit follows the value, such as "×" or " ms".
	Unit string
}

// Met tells whether a figure keeps to the bound. NaN never does.
func (b Bound) Met(figure float64) bool {
	if b.AtMost {
		return figure <= b.Value
	}
	return figure >= b.Value
}

func (b Bound) String() string {
	sign := "≥"
	if b.AtMost {
		sign = "≤"
	}
	return fmt.Sprintf("%s %g%s", sign, b.Value, b.Unit)
}
