// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-annex/annex/test/performance/measure"
)

// draw runs the command of test/modules/chart on results with the given bars.
func draw(t *testing.T, chart ...bars) (svg string, err error) {
	t.Helper()
	s := settings{root: "../..", out: filepath.Join(t.TempDir(), "results.json"), chart: filepath.Join(t.TempDir(), "chart.svg")}
	if err = (&results{Chart: chart}).write(s.out); err != nil {
		t.Fatal(err)
	}
	if err = drawChart(t.Context(), s); err != nil {
		return "", err
	}
	drawn, err := os.ReadFile(s.chart)
	return string(drawn), err
}

func TestChartShowsWorksPeersAndGoals(t *testing.T) {
	t.Parallel()
	drawn, err := draw(t, bars{Work: workCreate, Peers: []bar{
		{Peer: peerCRD, Times: measure.Spread{Median: 1, Min: 1, Max: 1}},
		{Peer: peerAnnexDirect, Times: measure.Spread{Median: 1.7, Min: 1.5, Max: 1.9}, Goal: 1.5},
	}}, bars{Work: workUpdate})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{">create<", ">update<", ">annex, direct<", ">goal<", ">2×<"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("the chart lacks %s", want)
		}
	}
	if strings.Contains(drawn, ">annex, aggregated<") {
		t.Error("the legend of the chart names a peer without figures")
	}
}

func TestChartWithoutFiguresIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := draw(t); err == nil || !strings.Contains(err.Error(), "the CRD has to be among the peers") {
		t.Errorf("got the error %v, want one that names what is missing", err)
	}
}
