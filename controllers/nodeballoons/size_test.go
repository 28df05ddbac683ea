// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"math"
	"testing"
)

func TestSumsOfSizesEndAtTheLargestNumber(t *testing.T) {
	t.Parallel()
	largest := size{math.MaxInt64, math.MaxInt64}
	for name, tc := range map[string]struct{ a, b, want size }{
		"small":                        {size{1, 2}, size{3, 4}, size{4, 6}},
		"just the largest":             {size{math.MaxInt64 - 1, 1}, size{1, math.MaxInt64 - 1}, largest},
		"more than the largest":        {size{math.MaxInt64, 2}, size{1, math.MaxInt64 - 1}, largest},
		"more than it in one resource": {size{math.MaxInt64, 2}, size{1, 3}, size{math.MaxInt64, 5}},
	} {
		if got := tc.a.plus(tc.b); got != tc.want {
			t.Errorf("%s: the sum is %v, want %v", name, got, tc.want)
		}
	}
}
