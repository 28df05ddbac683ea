// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
)

// manyGates is as large as the gate of kube-apiserver, a tenth of it set by flag.
func manyGates(tb testing.TB) (basegate.MutableVersionedFeatureGate, []basegate.Feature) {
	tb.Helper()
	gate := basegate.NewVersionedFeatureGate(version.MustParse("1.37"))
	specs, set := map[basegate.Feature]basegate.VersionedSpecs{}, map[string]bool{}
	var names []basegate.Feature
	for i := range 250 {
		name := basegate.Feature(fmt.Sprintf("SomeFeatureOfUsualLength%d", i))
		names = append(names, name)
		specs[name] = basegate.VersionedSpecs{
			{Version: version.MustParse("1.33"), PreRelease: basegate.Alpha},
			{Version: version.MustParse("1.35"), PreRelease: basegate.Beta, Default: true},
		}
		if i%10 == 0 {
			set[string(name)] = false
		}
	}
	if err := gate.AddVersioned(specs); err != nil {
		tb.Fatal(err)
	}
	if err := gate.SetFromMapWithLogger(klog.Logger{}, set); err != nil {
		tb.Fatal(err)
	}
	return gate, names
}

func reporting(tb testing.TB, base basegate.MutableVersionedFeatureGate, options ...Option) *Gate {
	tb.Helper()
	gate, err := New(base, Options{Component: "bench", Version: "v1", Namespace: "default", Instance: "bench-0"}, options...)
	if err != nil {
		tb.Fatal(err)
	}
	return gate
}

func ask(b *testing.B, gate basegate.FeatureGate, names []basegate.Feature) {
	b.Helper()
	for _, name := range names {
		gate.Enabled(name)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		gate.Enabled(names[i%len(names)])
	}
}

// BenchmarkEnabled compares the gate below, the same with reports, and the same with gates that follow the API.
func BenchmarkEnabled(b *testing.B) {
	plain, names := manyGates(b)
	var follow []Option
	for _, name := range names {
		follow = append(follow, FromAPI(name))
	}
	b.Run("plain", func(b *testing.B) { ask(b, plain, names) })
	b.Run("reporting", func(b *testing.B) { ask(b, reporting(b, plain), names) })
	b.Run("following", func(b *testing.B) { ask(b, reporting(b, plain, follow...), names) })
}

// BenchmarkEnabledRatio says how much longer a check takes than one of the gate below: the best round of each counts, and they take
// turns, so that a busy machine disturbs both alike.
func BenchmarkEnabledRatio(b *testing.B) {
	plain, names := manyGates(b)
	gates := []basegate.FeatureGate{plain, reporting(b, plain)}
	best := make([]time.Duration, len(gates))
	for b.Loop() {
		for i, gate := range gates {
			began := time.Now()
			for range 40 {
				for _, name := range names {
					gate.Enabled(name)
				}
			}
			if took := time.Since(began); best[i] == 0 || took < best[i] {
				best[i] = took
			}
		}
	}
	b.ReportMetric(float64(best[1])/float64(best[0]), "ratio")
}
