// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/version"
	basegate "k8s.io/component-base/featuregate"
	gatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2/ktesting"
)

// usual is the gate of most cases, at version 1.31.
func usual(tb testing.TB) basegate.MutableVersionedFeatureGate {
	tb.Helper()
	gate := basegate.NewVersionedFeatureGate(version.MustParse("1.31"))
	at := version.MustParse
	err := gate.AddVersioned(map[basegate.Feature]basegate.VersionedSpecs{
		"Alpha":      {{Version: at("1.29"), PreRelease: basegate.Alpha}},
		"Beta":       {{Version: at("1.28"), PreRelease: basegate.Alpha}, {Version: at("1.30"), PreRelease: basegate.Beta, Default: true}},
		"BetaOff":    {{Version: at("1.29"), PreRelease: basegate.Beta}},
		"GA":         {{Version: at("1.28"), PreRelease: basegate.Beta, Default: true}, {Version: at("1.30"), PreRelease: basegate.GA, Default: true}},
		"Locked":     {{Version: at("1.28"), PreRelease: basegate.Beta}, {Version: at("1.30"), PreRelease: basegate.GA, Default: true, LockToDefault: true}},
		"Future":     {{Version: at("1.32"), PreRelease: basegate.Alpha}},
		"Deprecated": {{Version: at("1.0"), Default: true, PreRelease: basegate.GA}, {Version: at("1.30"), PreRelease: basegate.Deprecated}},
		"Compatible": {
			{Version: at("1.31"), PreRelease: basegate.Beta},
			{Version: at("1.31"), PreRelease: basegate.Beta, Default: true, MinCompatibilityVersion: at("1.31")},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return gate
}

// on lists what is enabled of the usual gate.
func on(gate basegate.FeatureGate) string {
	var names []string
	for _, name := range []basegate.Feature{"Alpha", "Beta", "BetaOff", "GA", "Locked", "Future", "Deprecated", "Compatible", "AllAlpha", "AllBeta"} {
		if gate.Enabled(name) {
			names = append(names, string(name))
		}
	}
	return strings.Join(names, ",")
}

func panics(f func()) (with string) {
	defer func() { with = fmt.Sprint(recover()) }()
	f()
	return ""
}

// behaviours are what a gate of component-base does. Each function says what it saw.
var behaviours = map[string]struct {
	do   func(t *testing.T, gate basegate.MutableVersionedFeatureGate) []any
	want []any
}{
	"defaults": {
		do:   func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any { return []any{on(g)} },
		want: []any{"Beta,GA,Locked"},
	},
	"set": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("Alpha=true, Beta=false,,Deprecated=1"), on(g), g.ExplicitlySet("Alpha"), g.ExplicitlySet("GA"), fmt.Sprint(g)}
		},
		want: []any{nil, "Alpha,GA,Locked,Deprecated", true, false, "Alpha=true,Beta=false,Deprecated=true"},
	},
	"set what is wrong": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("Alpha"), g.Set("Alpha=banana"), g.Set("Nothing=true"), on(g), g.Validate()}
		},
		want: []any{
			"missing bool value for Alpha", `invalid value of Alpha=banana, err: strconv.ParseBool: parsing "banana": invalid syntax`,
			"unrecognized feature gate: Nothing", "Beta,GA,Locked", "[unrecognized feature gate: Nothing]",
		},
	},
	"set what is locked": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.SetFromMap(map[string]bool{"Locked": false}), on(g)}
		},
		want: []any{"cannot set feature gate Locked to false, feature is locked to true", "Beta,GA,Locked"},
	},
	"set what is locked to what it is": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.SetFromMap(map[string]bool{"Locked": true}), on(g)}
		},
		want: []any{nil, "Beta,GA,Locked"},
	},
	"set what is not yet": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("Future=true"), on(g)}
		},
		want: []any{"cannot set feature gate Future to true, feature is PreAlpha at emulated version 1.31, min compatibility version 1.30", "Beta,GA,Locked"},
	},
	"AllAlpha": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("AllAlpha=true"), on(g)}
		},
		want: []any{nil, "Alpha,Beta,GA,Locked,AllAlpha"},
	},
	"AllBeta, and one that is set": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("BetaOff=true,AllBeta=false"), on(g)}
		},
		want: []any{nil, "BetaOff,GA,Locked"},
	},
	"AllBeta after one was set": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("Beta=false"), g.Set("AllBeta=true"), on(g), g.ResetFeatureValueToDefault("Beta"), on(g)}
		},
		want: []any{nil, nil, "BetaOff,GA,Locked,Compatible,AllBeta", nil, "Beta,BetaOff,GA,Locked,Compatible,AllBeta"},
	},
	"an earlier version is emulated": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.SetEmulationVersion(version.MustParse("1.28")), on(g), g.EmulationVersion().String(), g.MinCompatibilityVersion().String(), g.Set("Locked=true"), on(g)}
		},
		want: []any{nil, "GA,Deprecated", "1.28", "1.27", nil, "GA,Locked,Deprecated"},
	},
	"an earlier version forbids what is set": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("Alpha=true"), g.SetEmulationVersion(version.MustParse("1.28")), on(g), g.EmulationVersion().String()}
		},
		want: []any{nil, "cannot set feature gate Alpha to true, feature is PreAlpha at emulated version 1.28, min compatibility version 1.27", "Alpha,Beta,GA,Locked", "1.31"},
	},
	"a flag is kept until the version allows it": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("Future=true") != nil, g.SetEmulationVersion(version.MustParse("1.32")), on(g), g.Validate()}
		},
		want: []any{true, nil, "Beta,GA,Locked,Future,Compatible", "[]"},
	},
	"minimal compatibility": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			v := version.MustParse("1.31")
			return []any{g.Enabled("Compatible"), g.SetEmulationVersionAndMinCompatibilityVersion(v, v), g.Enabled("Compatible"), g.MinCompatibilityVersion().String()}
		},
		want: []any{false, nil, true, "1.31"},
	},
	"defaults are overridden": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{
				g.OverrideDefault("Alpha", true), g.OverrideDefault("Locked", false), g.OverrideDefault("Nothing", true), g.OverrideDefault("Future", true),
				g.OverrideDefaultAtVersion("Beta", true, version.MustParse("1.28")), on(g), g.SetEmulationVersion(version.MustParse("1.28")), on(g),
			}
		},
		want: []any{
			nil, `cannot override default: feature "Locked" default is locked to true`, `cannot override default: feature "Nothing" is not registered`,
			`cannot override default: feature "Future" is not available before version 1.31`, nil, "Alpha,Beta,GA,Locked", nil, "Beta,GA,Deprecated",
		},
	},
	"a value is reset": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{g.Set("Beta=false"), g.ResetFeatureValueToDefault("Beta"), on(g), g.ExplicitlySet("Beta")}
		},
		want: []any{nil, nil, "Beta,GA,Locked", false},
	},
	"gates are added": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			more := map[basegate.Feature]basegate.FeatureSpec{"More": {PreRelease: basegate.Alpha, Default: true}}
			err := g.Add(more)
			other := g.Add(map[basegate.Feature]basegate.FeatureSpec{"More": {PreRelease: basegate.Beta}})
			g.Close()
			return []any{err, g.Enabled("More"), other != nil, g.Add(map[basegate.Feature]basegate.FeatureSpec{"Late": {}})}
		},
		want: []any{nil, true, true, "cannot add a feature gate after adding it to the flag set"},
	},
	"a flag": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			g.AddFlag(flags)
			err := flags.Parse([]string{"--feature-gates=Alpha=true", "--feature-gates=Beta=false"})
			return []any{err, on(g), flags.Lookup("feature-gates").Value.Type(), flags.Parse([]string{"--feature-gates=Locked=false"})}
		},
		want: []any{
			nil, "Alpha,GA,Locked", "mapStringBool",
			`invalid argument "Locked=false" for "--feature-gates" flag: cannot set feature gate Locked to false, feature is locked to true`,
		},
	},
	"the gate itself as a flag": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			flags.Var(g.(pflag.Value), "gates", "")
			return []any{flags.Parse([]string{"--gates=Alpha=true"}), on(g), flags.Lookup("gates").Value.String(), flags.Lookup("gates").Value.Type()}
		},
		want: []any{nil, "Alpha,Beta,GA,Locked", "Alpha=true", "mapStringBool"},
	},
	"known features": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			_, future := g.GetAll()["Future"]
			return []any{strings.Join(g.KnownFeatures(), "\n"), len(g.GetAll()), future, len(g.GetAllVersioned())}
		},
		want: []any{`AllAlpha=true|false (ALPHA - default=false)
AllBeta=true|false (BETA - default=false)
Alpha=true|false (ALPHA - default=false)
Beta=true|false (BETA - default=true)
BetaOff=true|false (BETA - default=false)
Compatible=true|false (BETA - default=false), or Compatible=true|false (BETA - default=true) if --min-compatibility-version>=1.31`, 9, false, 10},
	},
	"dependencies": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			err := g.AddDependencies(map[basegate.Feature][]basegate.Feature{"Alpha": {"Beta", "BetaOff", "Beta"}})
			return []any{err, fmt.Sprint(g.Dependencies()), g.Set("Alpha=true"), on(g), g.Set("BetaOff=true"), on(g), g.Validate(), g.Set("Beta=false")}
		},
		want: []any{
			nil, "map[Alpha:[Beta BetaOff]]", "Alpha is enabled, but depends on features that are disabled: [BetaOff]", "Beta,GA,Locked", nil,
			"Alpha,Beta,BetaOff,GA,Locked", "[]", "Alpha is enabled, but depends on features that are disabled: [Beta]",
		},
	},
	"dependencies that cannot be": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			depend := func(a, b basegate.Feature) any {
				return g.AddDependencies(map[basegate.Feature][]basegate.Feature{a: {b}})
			}
			return []any{depend("Alpha", "Nothing"), depend("Nothing", "Alpha"), depend("BetaOff", "Alpha"), depend("Alpha", "Alpha"), depend("Locked", "GA") != nil}
		},
		want: []any{
			"cannot add dependency from Alpha to unknown feature Nothing", "cannot add dependency for unknown feature Nothing",
			"BETA feature BetaOff cannot depend on ALPHA feature Alpha at version 1.29", "cycle detected with feature Alpha", true,
		},
	},
	"an unknown feature panics": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			return []any{panics(func() { g.Enabled("Nothing") })}
		},
		want: []any{`feature "Nothing" is not registered in FeatureGate`},
	},
	"a copy goes its own way": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			err := g.Set("Alpha=true")
			c := g.DeepCopy()
			return []any{err, on(c), c.Set("Alpha=false,BetaOff=true"), on(c), on(g), g.Set("Beta=false"), on(g), on(c), c.ExplicitlySet("Alpha")}
		},
		want: []any{nil, "Alpha,Beta,GA,Locked", nil, "Beta,BetaOff,GA,Locked", "Alpha,Beta,GA,Locked", nil, "Alpha,GA,Locked", "Beta,BetaOff,GA,Locked", true},
	},
	"a copy that is reset": {
		do: func(_ *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			err := g.Set("Alpha=true")
			c := g.DeepCopyAndReset()
			return []any{err, on(c), c.ExplicitlySet("Alpha"), c.EmulationVersion().String(), c.Set("BetaOff=true"), on(c), on(g)}
		},
		want: []any{nil, "Beta,GA,Locked", false, "1.31", nil, "Beta,BetaOff,GA,Locked", "Alpha,Beta,GA,Locked"},
	},
	"loggers": {
		do: func(t *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			simple, versioned := g.(basegate.MutableFeatureGateWithLogger), g.(basegate.MutableVersionedFeatureGateWithLogger)
			v := version.MustParse("1.30")
			errs := []any{
				simple.OverrideDefaultWithLogger(logger, "GA", false), versioned.OverrideDefaultAtVersionWithLogger(logger, "Deprecated", true, version.MustParse("1.31")),
				simple.SetWithLogger(logger, "GA=true"), simple.SetFromMapWithLogger(logger, map[string]bool{"Deprecated": true}), g.Enabled("GA"),
				versioned.SetEmulationVersionWithLogger(logger, v), versioned.SetEmulationVersionAndMinCompatibilityVersionWithLogger(logger, v, v),
			}
			var said []string
			for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
				said = append(said, entry.Message)
			}
			slices.Sort(said)
			return append(errs, strings.Join(slices.Compact(said), "\n"))
		},
		want: []any{nil, nil, nil, nil, true, nil, nil, `Set feature gate emulation
Updated
Warning: overriding default of GA feature gate. It will be removed in a future release.
Warning: overriding default of deprecated feature gate. It will be removed in a future release.
Warning: setting GA feature gate. It will be removed in a future release.
Warning: setting deprecated feature gate. It will be removed in a future release.`},
	},
	"the helper for tests": {
		do: func(t *testing.T, g basegate.MutableVersionedFeatureGate) []any {
			var within string
			t.Run("within", func(t *testing.T) {
				gatetesting.SetFeatureGateEmulationVersionDuringTest(t, g, version.MustParse("1.30"))
				gatetesting.SetFeatureGatesDuringTest(t, g, gatetesting.FeatureOverrides{"Alpha": true, "AllBeta": false})
				within = on(g)
			})
			return []any{within, on(g), g.EmulationVersion().String(), g.ExplicitlySet("Alpha")}
		},
		want: []any{"Alpha,GA,Locked", "Beta,GA,Locked", "1.31", false},
	},
}

// TestBehavesAsTheGateBelow runs the table against the gate of component-base and against ours, with and without a gate that follows
// the API.
func TestBehavesAsTheGateBelow(t *testing.T) {
	// The helper for tests keeps a list of gates that are set, for the whole process.
	gates := map[string]func(*testing.T) basegate.MutableVersionedFeatureGate{
		"plain":     func(t *testing.T) basegate.MutableVersionedFeatureGate { return usual(t) },
		"reporting": func(t *testing.T) basegate.MutableVersionedFeatureGate { return reporting(t, usual(t)) },
		"following": func(t *testing.T) basegate.MutableVersionedFeatureGate {
			return reporting(t, usual(t), FromAPI("Alpha"), FromAPI("Locked"), FromAPI("Unheard"))
		},
		"copy": func(t *testing.T) basegate.MutableVersionedFeatureGate { return reporting(t, usual(t)).DeepCopy() },
		"copied and reset": func(t *testing.T) basegate.MutableVersionedFeatureGate {
			return reporting(t, usual(t)).DeepCopyAndReset()
		},
	}
	for kind, newGate := range gates {
		for name, tc := range behaviours {
			t.Run(kind+"/"+name, func(t *testing.T) {
				got := tc.do(t, newGate(t))
				if diff := cmp.Diff(readable(tc.want), readable(got)); diff != "" {
					t.Errorf("(-want,+got):\n%s", diff)
				}
			})
		}
	}
}

func readable(results []any) []string {
	var out []string
	for _, r := range results {
		out = append(out, fmt.Sprint(r))
	}
	return out
}

// TestMetricsAreNoUse has the metrics of all gates, and no use of any.
func TestMetricsAreNoUse(t *testing.T) {
	gate := reporting(t, usual(t), FromAPI("Alpha"))
	gate.followed["Alpha"].value.store(enabled)
	gate.AddMetrics()
	for _, u := range gate.uses.all() {
		if u.seen.load() != unknown {
			t.Errorf("%s counts as used", u.name)
		}
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "kubernetes_feature_enabled" {
			continue
		}
		for _, metric := range family.GetMetric() {
			got[metric.GetLabel()[0].GetValue()] = metric.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"Alpha": 1, "Beta": 1, "BetaOff": 0, "Locked": 1} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("the metric of %s is %v (%t), want %v", name, value, ok, want)
		}
	}
}

func TestEnabledAllocatesNothing(t *testing.T) {
	plain, names := manyGates(t)
	gate := reporting(t, plain, FromAPI(names[1]))
	for _, name := range names {
		gate.Enabled(name)
	}
	allocs := testing.AllocsPerRun(100, func() {
		for _, name := range names {
			gate.Enabled(name)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations in %d checks, want none", allocs, len(names))
	}
}

// TestUsesAreFound fills the table far beyond its size.
func TestUsesAreFound(t *testing.T) {
	t.Parallel()
	u := newUses()
	var want []*use
	for i := range 5000 {
		want = append(want, u.add(basegate.Feature(fmt.Sprintf("F%dWithTheSameEnd", i)), nil), u.add(basegate.Feature(fmt.Sprintf("S%d", i)), nil))
	}
	for _, w := range want {
		if found := u.find(w.name); found != w {
			t.Fatalf("%s: found %v", w.name, found)
		}
	}
	if found := u.find("Absent"); found != nil {
		t.Errorf("found %s", found.name)
	}
	plain := newUses()
	_, names := manyGates(t)
	for _, name := range names {
		plain.add(name, nil)
	}
	longest := 0
	for i := range plain.buckets {
		length := 0
		for at := plain.buckets[i].Load(); at != nil; at = at.next {
			length++
		}
		longest = max(longest, length)
	}
	if longest > 5 {
		t.Errorf("%d of %d names are in one bucket", longest, len(names))
	}
}
