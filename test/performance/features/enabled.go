// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/featuregate"
)

// enabled compares a check of a gate with one of the gate below. They take turns, so that a busy machine disturbs both alike, and the
// best round of each counts.
func enabled(ctx context.Context, _ settings, results *table) error {
	const gates, repeats = 250, 40
	plain := basegate.NewVersionedFeatureGate(version.MustParse("1.37"))
	specs, set := map[basegate.Feature]basegate.VersionedSpecs{}, map[string]bool{}
	var names []basegate.Feature
	var follow []featuregate.Option
	for i := range gates {
		name := featureName(i)
		names, follow = append(names, name), append(follow, featuregate.FromAPI(name))
		specs[name] = basegate.VersionedSpecs{
			{Version: version.MustParse("1.33"), PreRelease: basegate.Alpha},
			{Version: version.MustParse("1.35"), PreRelease: basegate.Beta, Default: true},
		}
		if i%10 == 0 {
			set[string(name)] = false
		}
	}
	if err := plain.AddVersioned(specs); err != nil {
		return err
	}
	if err := plain.SetFromMapWithLogger(klog.Logger{}, set); err != nil {
		return err
	}
	options := featuregate.Options{Component: "bench", Version: "v1", Namespace: "default", Instance: "bench-0"}
	reporting, err := featuregate.New(plain, options)
	if err != nil {
		return err
	}
	following, err := featuregate.New(plain, options, follow...)
	if err != nil {
		return err
	}
	all := []basegate.FeatureGate{plain, reporting, following}
	best := make([]time.Duration, len(all))
	for began := time.Now(); time.Since(began) < 3*time.Second && ctx.Err() == nil; {
		for i, gate := range all {
			round := time.Now()
			for range repeats {
				for _, name := range names {
					gate.Enabled(name)
				}
			}
			if took := time.Since(round); best[i] == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	for i, what := range []string{"the gate below", "a gate that reports", "one whose features follow the API"} {
		bound, figure := "", fmt.Sprintf("%.1f ns", float64(best[i].Nanoseconds())/(gates*repeats))
		if i > 0 {
			allocations := testing.AllocsPerRun(100, func() { all[i].Enabled(names[7]) })
			bound = "≤ 1.2×, 0 allocations"
			figure += fmt.Sprintf(", **%.2f×**, %.0f allocations", float64(best[i])/float64(best[0]), allocations)
		}
		results.add("Enabled of "+what, bound, "%s", figure)
	}
	return ctx.Err()
}
