// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Quantile is the smallest value that so large a part of all does not exceed; of no values it is zero.
func Quantile[T cmp.Ordered](values []T, part float64) (at T) {
	if len(values) == 0 {
		return at
	}
	ordered := slices.Sorted(slices.Values(values))
	return ordered[min(len(ordered)-1, max(0, int(math.Ceil(part*float64(len(ordered))))-1))]
}

// Spread is what several rounds have measured.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// SpreadOf returns the median of values and their extremes, and zeros of none. Of an even number the median is the mean of the two in the
// middle.
func SpreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	ordered := slices.Sorted(slices.Values(values))
	half := len(ordered) / 2
	median := ordered[half]
	if len(ordered)%2 == 0 {
		median = (median + ordered[half-1]) / 2
	}
	return Spread{Median: median, Min: ordered[0], Max: ordered[len(ordered)-1], Rounds: len(ordered)}
}

// String is the median and, of more than one round, the extremes.
func (s Spread) String() string {
	switch s.Rounds {
	case 0:
		return "–"
	case 1:
		return Figure(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", Figure(s.Median), Figure(s.Min), Figure(s.Max))
}

// Figure writes a number with three digits that count, or all before the point.
func Figure(value float64) string {
	if value == 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	before := int(math.Floor(math.Log10(math.Abs(value)))) + 1
	return strconv.FormatFloat(value, 'f', max(0, 3-before), 64)
}
