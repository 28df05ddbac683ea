// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"strings"
)

// maxSimilar is how many names a hint has.
const maxSimilar = 3

// similar returns the names that someone who wrote name may have meant, the nearest first.
func similar(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	wanted := strings.ToLower(name)
	var near []candidate
	for _, other := range names {
		known := strings.ToLower(other)
		distance := editDistance(wanted, known)
		// Two slips in a short name, more in a long one, or a part of the name.
		if distance <= max(2, len(wanted)/4) || len(wanted) >= 3 && strings.Contains(known, wanted) {
			near = append(near, candidate{other, distance})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var found []string
	for _, c := range near[:min(len(near), maxSimilar)] {
		found = append(found, c.name)
	}
	return found
}

// editDistance counts the bytes to insert, delete or replace to make a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
