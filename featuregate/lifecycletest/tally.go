// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycletest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// tally counts what kills have met.
type tally struct {
	kills, hits int
	// met is by state, task and feature.
	met map[string]int
}

// add counts a kill, and tells whether any of the Features was on its way.
func (c *tally) add(features map[string]*v1alpha1.Feature) bool {
	c.kills++
	hit := false
	for name, feature := range features {
		status := &feature.Status
		if len(status.Tasks) == 0 {
			continue
		}
		hit = true
		c.met[fmt.Sprintf("%s of %s %s", status.Tasks[0].Name, name, status.State)]++
	}
	if hit {
		c.hits++
	}
	return hit
}

// report prints the figures, and fails if most kills came too late.
func (c *tally) report(t testing.TB) {
	t.Helper()
	if c.kills == 0 {
		return
	}
	lines := []string{fmt.Sprintf("%d of %d kills met a feature on its way:", c.hits, c.kills)}
	for _, what := range slices.Sorted(maps.Keys(c.met)) {
		lines = append(lines, fmt.Sprintf("%4d  %s", c.met[what], what))
	}
	t.Log(strings.Join(lines, "\n"))
	if 4*c.hits < c.kills {
		t.Errorf("only %d of %d kills met a feature on its way; most prove nothing", c.hits, c.kills)
	}
}
