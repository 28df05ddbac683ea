// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	basegate "k8s.io/component-base/featuregate"
)

func TestBadInput(t *testing.T) {
	t.Parallel()
	good := func() Options {
		return Options{Component: "frobber", Version: "v1.2.3", Namespace: "frob-system", Instance: "frobber-0"}
	}
	for name, tc := range map[string]struct {
		edit   func(*Options)
		follow []Option
		base   func(testing.TB) basegate.MutableVersionedFeatureGate
		want   []string
	}{
		"good":                    {edit: func(*Options) {}},
		"nothing":                 {edit: func(o *Options) { *o = Options{} }, want: []string{`Component "": must be the name of the program`, `Version "": must be`, `Namespace "": must be`, `Instance "": must tell`}},
		"component of words":      {edit: func(o *Options) { o.Component = "my frobber" }, want: []string{`Component "my frobber": a valid label must`}},
		"component that is long":  {edit: func(o *Options) { o.Component = strings.Repeat("c", 64) }, want: []string{`must be no more than 63`}},
		"version that is long":    {edit: func(o *Options) { o.Version = strings.Repeat("1", 65) }, want: []string{`must be at most 64 characters`}},
		"version of bad bytes":    {edit: func(o *Options) { o.Version = "v1\xff" }, want: []string{`Version "v1\xff": must be valid UTF-8`}},
		"version with build":      {edit: func(o *Options) { o.Version = "v1.2.3+k3s1" }},
		"namespace in upper case": {edit: func(o *Options) { o.Namespace = "Frob" }, want: []string{`Namespace "Frob": a lowercase RFC 1123 label`}},
		"namespace with a dot":    {edit: func(o *Options) { o.Namespace = "a.b" }, want: []string{`Namespace "a.b": `}},
		"instance that is long":   {edit: func(o *Options) { o.Instance = strings.Repeat("é", 254) }, want: []string{`must be at most 253 characters`}},
		"no gate":                 {edit: func(*Options) {}, base: func(testing.TB) basegate.MutableVersionedFeatureGate { return nil }, want: []string{"there is no gate to report on"}},
		"a gate that reports": {
			edit: func(*Options) {}, base: func(tb testing.TB) basegate.MutableVersionedFeatureGate { return reporting(tb, usual(tb)) },
			want: []string{"the gate reports already"},
		},
		"followed names": {
			edit: func(*Options) {}, follow: []Option{FromAPI("Good"), FromAPI(""), FromAPI("1st"), FromAPI("AllAlpha"), FromAPI("Good"), FromAPI("a/b"), FromAPI(basegate.Feature(strings.Repeat("a", 254)))},
			want: []string{`FromAPI(""): must be`, `FromAPI("1st")`, `FromAPI("AllAlpha")`, `FromAPI("Good") is given twice`, `FromAPI("a/b")`, `FromAPI("aaa`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := good()
			tc.edit(&options)
			base := usual(t)
			if tc.base != nil {
				base = tc.base(t)
			}
			gate, err := New(base, options, tc.follow...)
			if len(tc.want) == 0 {
				if err != nil || gate == nil {
					t.Errorf("New: %v", err)
				}
				return
			}
			if err == nil || gate != nil {
				t.Fatalf("New returned a gate and %v, want an error", err)
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tc.want) {
				t.Errorf("%d problems, want %d:\n%v", len(lines), len(tc.want), err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestRunNeedsSomething(t *testing.T) {
	t.Parallel()
	gate := reporting(t, usual(t))
	if err := gate.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no client configuration") {
		t.Errorf("Run without configuration: %v", err)
	}
	if err := gate.RunWith(t.Context(), Client{}); err == nil || !strings.Contains(err.Error(), "needs a client") {
		t.Errorf("RunWith without a client: %v", err)
	}
}

func TestLabelValue(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.37.1": "v1.37.1", "v1.2.3+k3s1": "v1.2.3_k3s1", "(devel)": "devel", "+": "", strings.Repeat("1", 64): strings.Repeat("1", 63), "naïve": "na_ve",
	} {
		if got := LabelValue(version); got != want {
			t.Errorf("LabelValue(%q) = %q, want %q", version, got, want)
		}
	}
}

func TestAnswerWindow(t *testing.T) {
	t.Parallel()
	for gates, want := range map[int]time.Duration{0: time.Minute, 1: time.Minute, 12000: time.Minute, 24000: 2 * time.Minute} {
		if got := AnswerWindow(gates); got != want {
			t.Errorf("AnswerWindow(%d) = %s, want %s", gates, got, want)
		}
	}
}

func TestLeaseName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ component, instance, want string }{
		{"frobber", "node-1", "feature-reporter-frobber-node-1-"},
		{"frobber", "frobber-0", "feature-reporter-frobber-0-"},
		{"Frobber", "Pod/One@Node.example", "feature-reporter-frobber-pod-one-node-example-"},
		{"frobber", "日本", "feature-reporter-frobber-"},
		{"日本", "日本", "feature-reporter-"},
		{strings.Repeat("c", 63), strings.Repeat("i", 253), "feature-reporter-" + strings.Repeat("c", 63) + "-" + strings.Repeat("i", 100) + "-"},
	} {
		got := LeaseName("ns", "user", tc.component, tc.instance)
		if !strings.HasPrefix(got, tc.want) || len(validation.IsDNS1123Subdomain(got)) > 0 {
			t.Errorf("LeaseName(%q, %q) = %q, want %s…", tc.component, tc.instance, got, tc.want)
		}
	}
	names := map[string]bool{}
	for _, of := range [][4]string{
		{"n", "u", "a", "b-c"}, {"n", "u", "a-b", "c"}, {"n", "u", "a", "x/y"}, {"n", "u", "a", "x-y"}, {"other", "u", "a", "b-c"}, {"n", "other", "a", "b-c"},
	} {
		name := LeaseName(of[0], of[1], of[2], of[3])
		if names[name] {
			t.Errorf("two reporters have the Lease %s", name)
		}
		names[name] = true
	}
}
