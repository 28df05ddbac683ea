// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuantileIsAValueThatWasMeasured(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []float64
		part   float64
		want   float64
	}{
		"none":                  {part: 0.5},
		"one":                   {values: []float64{7}, part: 0.99, want: 7},
		"median of an odd row":  {values: []float64{3, 1, 2}, part: 0.5, want: 2},
		"median of an even row": {values: []float64{4, 3, 1, 2}, part: 0.5, want: 2},
		"all":                   {values: []float64{3, 1, 2}, part: 1, want: 3},
		"least":                 {values: []float64{3, 1, 2}, part: 0, want: 1},
		"99 of 100":             {values: upTo(100), part: 0.99, want: 99},
		"99 of 101":             {values: upTo(101), part: 0.99, want: 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Quantile(tc.values, tc.part); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func upTo(n int) (out []float64) {
	for i := range n {
		out = append(out, float64(n-i))
	}
	return out
}

func TestSpreadHasMedianAndExtremes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		values []float64
		want   Spread
		text   string
	}{
		"none":        {text: "–"},
		"one":         {values: []float64{2.5}, want: Spread{Median: 2.5, Min: 2.5, Max: 2.5, Rounds: 1}, text: "2.50"},
		"odd":         {values: []float64{1300, 20, 3}, want: Spread{Median: 20, Min: 3, Max: 1300, Rounds: 3}, text: "20.0 (3.00–1300)"},
		"even":        {values: []float64{4, 1, 2, 3}, want: Spread{Median: 2.5, Min: 1, Max: 4, Rounds: 4}, text: "2.50 (1.00–4.00)"},
		"not stirred": {values: []float64{0.0123, 0, -2}, want: Spread{Median: 0, Min: -2, Max: 0.0123, Rounds: 3}, text: "0 (-2.00–0.0123)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := SpreadOf(tc.values)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
			if got.String() != tc.text {
				t.Errorf("it reads %q, want %q", got, tc.text)
			}
		})
	}
}

func TestBoundsHoldOnTheirOwnValue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bound  Bound
		figure float64
		want   bool
		text   string
	}{
		"at least, above": {bound: Bound{Value: 1.5, Unit: "×"}, figure: 1.6, want: true, text: "≥ 1.5×"},
		"at least, at it": {bound: Bound{Value: 1.5, Unit: "×"}, figure: 1.5, want: true, text: "≥ 1.5×"},
		"at least, below": {bound: Bound{Value: 1.5, Unit: "×"}, figure: 1.49, text: "≥ 1.5×"},
		"at most, above":  {bound: Bound{AtMost: true, Value: 50, Unit: " ms"}, figure: 50.1, text: "≤ 50 ms"},
		"at most, at it":  {bound: Bound{AtMost: true, Value: 50, Unit: " ms"}, figure: 50, want: true, text: "≤ 50 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.bound.Met(tc.figure); got != tc.want {
				t.Errorf("met: %v, want %v", got, tc.want)
			}
			if got := tc.bound.String(); got != tc.text {
				t.Errorf("it reads %q, want %q", got, tc.text)
			}
		})
	}
}
