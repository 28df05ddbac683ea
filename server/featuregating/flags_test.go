// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/server/featuregating/gates"
)

// moreGates are Annex's own with some that cannot be dynamic.
func moreGates(t *testing.T) featuregate.MutableVersionedFeatureGate {
	t.Helper()
	out := gates.New()
	first := version.MajorMinor(0, 1)
	if err := out.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{
		"Ready":  {{Version: first, Default: true, PreRelease: featuregate.GA}},
		"Pinned": {{Version: first, Default: true, PreRelease: featuregate.Beta, LockToDefault: true}},
		"Leaving": {
			{Version: version.MajorMinor(0, 0), Default: true, PreRelease: featuregate.GA}, {Version: first, Default: true, PreRelease: featuregate.Deprecated},
		},
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func parsed(t *testing.T, args ...string) *Options {
	t.Helper()
	o := NewOptions()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &o
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		dynamic string
		values  map[name]bool
	}{
		"nothing": {},
		"one of ours": {
			args: []string{"--dynamic-features=annex-system/FeatureCanary"}, dynamic: "annex-system/FeatureCanary",
		},
		"all of ours": {
			args:    []string{"--dynamic-features=annex-system/*"},
			dynamic: "annex-system/FeatureCanary annex-system/Leaving annex-system/NodeBalloonReclaimPolicy",
		},
		"those of others": {
			args:   []string{"--features=a/One=true,a/Two=false", "--features=b/One=1, b/Two=F"},
			values: map[name]bool{{"a", "One"}: true, {"a", "Two"}: false, {"b", "One"}: true, {"b", "Two"}: false},
		},
		"all of a namespace": {
			args: []string{"--dynamic-features=a/*,b/Two", "--features=a/One=true,a/Two=true,b/One=true,b/Two=true"}, dynamic: "a/One a/Two b/Two",
			values: map[name]bool{{"a", "One"}: true, {"a", "Two"}: true, {"b", "One"}: true, {"b", "Two"}: true},
		},
		"twice the same": {args: []string{"--features=a/One=true,a/One=true"}, values: map[name]bool{{"a", "One"}: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := parsed(t, tc.args...)
			if errs := o.Validate(moreGates(t)); len(errs) > 0 {
				t.Fatal(errors.Join(errs...))
			}
			got, _ := o.read(moreGates(t))
			var dynamic []string
			for n := range got.dynamic {
				dynamic = append(dynamic, n.String())
			}
			if diff := cmp.Diff(strings.Fields(tc.dynamic), sorted(dynamic)); diff != "" {
				t.Errorf("dynamic (-want,+got):\n%s", diff)
			}
			if len(tc.values)+len(got.values) > 0 {
				if diff := cmp.Diff(tc.values, got.values); diff != "" {
					t.Errorf("values (-want,+got):\n%s", diff)
				}
			}
		})
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		arg  string
		want []string
	}{
		"no namespace":                     {"--dynamic-features=foo", []string{"--dynamic-features", `"foo" has no namespace`, "annex-system/NodeBalloonReclaimPolicy"}},
		"a bad namespace":                  {"--dynamic-features=A/Foo", []string{"--dynamic-features", `"A" is not the name of a namespace`}},
		"a bad name":                       {"--features=a/9lives=true", []string{"--features", `"9lives" is not the name of a feature`, "NodeSwap"}},
		"no name":                          {"--features=a/=true", []string{"--features", `"" is not the name of a feature`}},
		"a gate that is read at the start": {"--dynamic-features=annex-system/GracefulLeaderTransition", []string{"GracefulLeaderTransition is read by processes when they start", "take it out"}},
		"an unknown gate":                  {"--dynamic-features=annex-system/Bogus", []string{"--dynamic-features", "annex-system/Bogus is no feature gate of Annex", "FeatureCanary, GracefulLeaderTransition, Leaving, NodeBalloonReclaimPolicy"}},
		"AllAlpha":                         {"--dynamic-features=annex-system/AllAlpha", []string{"annex-system/AllAlpha is no feature gate of Annex"}},
		"a locked gate":                    {"--dynamic-features=annex-system/Pinned", []string{"--dynamic-features", "annex-system/Pinned is locked to its default", "take it out"}},
		"a gate that is GA":                {"--dynamic-features=annex-system/Ready", []string{"--dynamic-features", "annex-system/Ready is generally available", "take it out"}},
		"another's without value":          {"--dynamic-features=frob/Foo", []string{"--dynamic-features", "frob/Foo", "--features=frob/Foo=false or =true"}},
		"all of nothing":                   {"--dynamic-features=frob/*", []string{"--dynamic-features", "frob/* stands for no feature", "--features=frob/Name=false"}},
		"our own gate":                     {"--features=annex-system/FeatureCanary=true", []string{"--features", "use --feature-gates=FeatureCanary=true"}},
		"both values":                      {"--features=a/One=true,a/One=false", []string{"--features", "a/One is both true and false"}},
		"no value":                         {"--features=a/One", []string{"--features", `"a/One" has no value`, "=true or"}},
		"neither true nor false":           {"--features=a/One=maybe", []string{"--features", `the value of a/One is "maybe"`, "true or false"}},
		"values for all":                   {"--features=a/*=true", []string{"--features", "name each"}},
		"no retention":                     {"--feature-retention=0", []string{"--feature-retention 0", "at least 1"}},
		"a negative retention":             {"--feature-retention=-1", []string{"--feature-retention -1", "at least 1"}},
		"a negative rate":                  {"--task-qps=-5", []string{"--task-qps -5 is negative", "0 for no limit"}},
		"no time to answer":                {"--feature-answer-window=0s", []string{"--feature-answer-window 0s", "more than 0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := parsed(t, tc.arg).Validate(moreGates(t))
			if len(errs) != 1 {
				t.Fatalf("got %d errors, want one: %v", len(errs), errors.Join(errs...))
			}
			for _, want := range tc.want {
				if !strings.Contains(errs[0].Error(), want) {
					t.Errorf("the error is %q, want it to have %q", errs[0], want)
				}
			}
		})
	}
}

func TestAllMistakesAreReported(t *testing.T) {
	t.Parallel()
	o := parsed(t, "--features=a,b/B=x,c/C=true", "--dynamic-features=d,c/C,annex-system/E", "--task-qps=-1")
	if errs := o.Validate(gates.New()); len(errs) != 5 {
		t.Errorf("got %d errors, want 5: %v", len(errs), errors.Join(errs...))
	}
}
