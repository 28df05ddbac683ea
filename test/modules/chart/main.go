// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chart draws what test/performance has measured: how many times less CPU each peer takes for an operation than a CRD does. It is a
// module of its own, so that the library that draws is no dependency of Annex.
//
//	go run . results.json bench.svg
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// bars are the peers' figures for a work. The fields are those of the results of test/performance.
type bars struct {
	Work  string `json:"work"`
	Peers []bar  `json:"peers"`
}

type bar struct {
	Peer  string  `json:"peer"`
	Times spread  `json:"times"`
	Goal  float64 `json:"goal"`
}

type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: chart RESULTS.json CHART.svg")
	}
	content, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var results struct {
		Chart []bars `json:"chart"`
	}
	if err = json.Unmarshal(content, &results); err != nil {
		return fmt.Errorf("read %s: %w", args[0], err)
	}
	if len(results.Chart) == 0 {
		return fmt.Errorf("%s has nothing to draw; the CRD has to be among the peers", args[0])
	}
	drawn, err := draw(results.Chart)
	if err != nil {
		return err
	}
	file, err := os.Create(args[1])
	if err != nil {
		return err
	}
	_, err = drawn.WriteTo(file)
	return errors.Join(err, file.Close())
}

// shown are the peers that are drawn, in order. The others are in the tables.
var shown = []string{"ConfigMap", "sample-apiserver, aggregated", "annex, direct", "annex, aggregated", "annex up, direct", "annex up, through its control plane"}

// of returns a peer's figures for each work, and false where it has none at all.
func of(works []bars, peer string) (out []bar, found bool) {
	out = make([]bar, len(works))
	for i, work := range works {
		if at := slices.IndexFunc(work.Peers, func(b bar) bool { return b.Peer == peer }); at >= 0 {
			out[i], found = work.Peers[at], true
		}
	}
	return out, found
}
