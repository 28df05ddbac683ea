// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChartShowsWorksPeersAndGoals(t *testing.T) {
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results.json")
	content := `{"chart": [
		{"work": "create", "peers": [{"peer": "CRD", "times": {"median": 1, "min": 1, "max": 1}},
			{"peer": "annex, direct", "times": {"median": 1.7, "min": 1.5, "max": 1.9}, "goal": 1.5}]},
		{"work": "update", "peers": []}]}`
	if err := os.WriteFile(results, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "chart.svg")
	if err := run([]string{results, file}); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">create<", ">update<", ">annex, direct<", ">goal<", ">2×<"} {
		if !strings.Contains(string(drawn), want) {
			t.Errorf("the chart lacks %s", want)
		}
	}
	// A peer without figures has no entry in the legend.
	if strings.Contains(string(drawn), ">annex, aggregated<") {
		t.Error("the chart names a peer of which nothing was measured")
	}
}

func TestNothingToDrawIsSaid(t *testing.T) {
	t.Parallel()
	results := filepath.Join(t.TempDir(), "results.json")
	if err := os.WriteFile(results, []byte(`{"chart": null}`), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run([]string{results, filepath.Join(t.TempDir(), "chart.svg")})
	if err == nil || !strings.Contains(err.Error(), "the CRD has to be among the peers") {
		t.Errorf("got the error %v, want one that says what is missing", err)
	}
}
