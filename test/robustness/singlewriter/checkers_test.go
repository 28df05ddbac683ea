// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package singlewriter_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/test/robustness/singlewriter"
)

const lasts = math.MaxInt64

func TestIntervalsOfAProcess(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		output string
		died   int64
		want   []singlewriter.Interval
	}{
		"stopped": {
			output: `{"at":1,"event":"start","group":"g","term":"a"}` + "\n" + `{"at":3,"event":"stop","group":"g","term":"a"}` + "\n",
			died:   lasts,
			want:   []singlewriter.Interval{{Group: "g", Term: "a", From: 1, To: 3}},
		},
		"runs on": {
			output: `{"at":1,"event":"start","group":"g","term":"a"}` + "\n",
			died:   lasts,
			want:   []singlewriter.Interval{{Group: "g", Term: "a", From: 1, To: lasts}},
		},
		"killed while it wrote": {
			output: `{"at":1,"event":"start","group":"g","term":"a"}` + "\n" + `{"at":3,"ev`,
			died:   5,
			want:   []singlewriter.Interval{{Group: "g", Term: "a", From: 1, To: 5}},
		},
		"ended by itself before anybody knew": {
			output: `{"at":1,"event":"start","group":"g","term":"a"}` + "\n" + `{"at":3,"event":"exit"}` + "\n",
			died:   5,
			want:   []singlewriter.Interval{{Group: "g", Term: "a", From: 1, To: 3}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, err := singlewriter.Events([]byte(tc.output))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, singlewriter.Intervals(events, tc.died)); diff != "" {
				t.Errorf("(-want,+got)\n%s", diff)
			}
		})
	}
}

func TestOverlaps(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		intervals []singlewriter.Interval
		want      int
	}{
		"one after the other":        {[]singlewriter.Interval{{"g", "b", 3, lasts}, {"g", "a", 1, 3}}, 0},
		"different groups":           {[]singlewriter.Interval{{"g", "a", 1, 4}, {"h", "b", 2, 3}}, 0},
		"by a nanosecond":            {[]singlewriter.Interval{{"g", "a", 1, 4}, {"g", "b", 3, 5}}, 1},
		"within another":             {[]singlewriter.Interval{{"g", "a", 1, 9}, {"g", "b", 2, 3}}, 1},
		"beside the one before last": {[]singlewriter.Interval{{"g", "a", 1, 9}, {"g", "b", 2, 3}, {"g", "c", 4, 5}}, 2},
		"both still run":             {[]singlewriter.Interval{{"g", "a", 1, lasts}, {"g", "b", 2, lasts}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := singlewriter.Overlaps(tc.intervals); len(got) != tc.want {
				t.Errorf("found %q, want %d", got, tc.want)
			}
		})
	}
}
