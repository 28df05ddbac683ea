// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kube-annex/annex/test/robustness/singlewriter"
)

const (
	spreadGroups    = 12
	spreadReplicas  = 3
	spreadNamespace = "spread"

	rowSpread = "3 replicas, 12 groups: third replica started to 4/4/4, s"
	rowMoved  = "groups of others that moved when one replica was killed"
	rowTaken  = "a killed replica's groups led by others at 15 s/10 s/2 s, s"
)

// spread starts replicas one after the other and kills one, with default timings.
func spread(ctx context.Context, s settings, at server, results *table) error {
	progress("spreading %d groups over %d replicas at %s", spreadGroups, spreadReplicas, at.name)
	if _, err := namespace(ctx, at, spreadNamespace); err != nil {
		return err
	}
	var replicas []*singlewriter.Worker
	for i := range spreadReplicas {
		replica, err := newWorker(s, at, fmt.Sprintf("replica%d", i), spreadNamespace, spreadGroups, "-spread")
		if err != nil {
			return err
		}
		if err := replica.Start(); err != nil {
			return err
		}
		defer replica.Kill()
		replicas = append(replicas, replica)
		if i == 0 {
			if _, err := until(ctx, time.Minute, func(counts []int) bool { return counts[0] == spreadGroups }, replica); err != nil {
				return err
			}
		}
	}
	stable := time.Now()
	share := spreadGroups / spreadReplicas
	before, err := until(ctx, 3*time.Minute, func(counts []int) bool {
		return !slices.ContainsFunc(counts, func(n int) bool { return n != share })
	}, replicas...)
	if err != nil {
		return err
	}
	results.addValue(rowSpread, at, time.Since(stable).Seconds())

	// Renewals go on for a while, so that the kill does not meet the last hand-over.
	if err = pause(ctx, 5*time.Second); err != nil {
		return err
	}
	killed := time.Now()
	replicas[0].Kill()
	after, err := until(ctx, time.Minute, func(counts []int) bool { return counts[0]+counts[1] == spreadGroups }, replicas[1:]...)
	if err != nil {
		return err
	}
	results.addValue(rowTaken, at, time.Since(killed).Seconds())
	moved := 0
	for i, groups := range before[1:] {
		for group, started := range groups {
			if after[i][group] != started {
				moved++
			}
		}
	}
	progress("replicas lead %v", slices.Collect(maps.Keys(after[0])))
	results.addValue(rowMoved, at, float64(moved))
	return nil
}
