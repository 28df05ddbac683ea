// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-annex/annex/apis/features"
)

func TestValidateFeatureReport(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*features.FeatureReportSpec)
		want   []string
	}{
		"valid":                 {change: func(*features.FeatureReportSpec) {}},
		"no gates":              {change: func(s *features.FeatureReportSpec) { s.Features = nil }},
		"only name and value":   {change: func(s *features.FeatureReportSpec) { s.Features[0].Default, s.Features[0].Stability = "", "" }},
		"empty":                 {change: func(s *features.FeatureReportSpec) { *s = features.FeatureReportSpec{} }, want: []string{"spec.component: Required value", "spec.version: Required value", "spec.instance: Required value"}},
		"component of 63 runes": {change: func(s *features.FeatureReportSpec) { s.Component = strings.Repeat("é", 63) }},
		"component of 64":       {change: func(s *features.FeatureReportSpec) { s.Component = strings.Repeat("x", 64) }, want: []string{"spec.component: Too long"}},
		"version of 64 runes":   {change: func(s *features.FeatureReportSpec) { s.Version = strings.Repeat("é", 64) }},
		"version of 65":         {change: func(s *features.FeatureReportSpec) { s.Version = strings.Repeat("x", 65) }, want: []string{"spec.version: Too long"}},
		"instance of 253":       {change: func(s *features.FeatureReportSpec) { s.Instance = strings.Repeat("x", 253) }},
		"instance of 254":       {change: func(s *features.FeatureReportSpec) { s.Instance = strings.Repeat("x", 254) }, want: []string{"spec.instance: Too long"}},
		"not UTF-8": {
			change: func(s *features.FeatureReportSpec) { s.Component, s.Version, s.Instance = "c\xff", "v\xff", "i\xff" },
			want:   []string{"spec.component: Invalid value", "spec.version: Invalid value", "spec.instance: Invalid value"},
		},
		"a bad gate name": {change: func(s *features.FeatureReportSpec) { s.Features[1].Name = "no/name" }, want: []string{"spec.features[1].name: Invalid value"}},
		"a gate twice":    {change: func(s *features.FeatureReportSpec) { s.Features[1].Name = s.Features[0].Name }, want: []string{"spec.features[1].name: Duplicate value"}},
		"no value":        {change: func(s *features.FeatureReportSpec) { s.Features[0].Value = "" }, want: []string{"spec.features[0].value: Required value"}},
		"enums": {
			change: func(s *features.FeatureReportSpec) {
				s.Features[0] = features.ReportedFeature{Name: "A", Value: "On", Default: "Off", Stability: "Stable"}
			},
			want: []string{"spec.features[0].value: Unsupported value", "spec.features[0].default: Unsupported value", "spec.features[0].stability: Unsupported value"},
		},
		"control characters": {
			change: func(s *features.FeatureReportSpec) {
				s.Component, s.Version, s.Instance = "\x1b[2Jkubelet", "v1\u009b31m", "node\x7f\n1"
			},
			want: []string{"spec.component: Invalid value", "spec.version: Invalid value", "spec.instance: Invalid value"},
		},
		"observed":                      {change: func(s *features.FeatureReportSpec) { s.Observed = "18446744073709551615" }},
		"observed is no version":        {change: func(s *features.FeatureReportSpec) { s.Observed = "0x12" }, want: []string{"spec.observed: Invalid value"}},
		"observed is long":              {change: func(s *features.FeatureReportSpec) { s.Observed = strings.Repeat("1", 1000) }, want: []string{"spec.observed: Invalid value"}},
		"as many gates as there may be": {change: func(s *features.FeatureReportSpec) { s.Features = gatesOfLength(1024, 100) }},
		"one gate too many":             {change: func(s *features.FeatureReportSpec) { s.Features = gatesOfLength(1025, 10) }, want: []string{"spec.features: Too many"}},
		"too much text":                 {change: func(s *features.FeatureReportSpec) { s.Features = gatesOfLength(1000, 200) }, want: []string{"spec.features: Too long"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := &features.FeatureReport{Spec: features.FeatureReportSpec{
				Component: "kubelet", Version: "v1.37.1", Instance: "node-1",
				Features: []features.ReportedFeature{
					{Name: "NodeSwap", Value: "Enabled", Default: "Enabled", Stability: "GA"},
					{Name: "Other", Value: "Disabled", Default: "Enabled", Stability: "Deprecated"},
				},
			}}
			tc.change(&report.Spec)
			var got []string
			for _, err := range ValidateFeatureReport(report) {
				got = append(got, err.Field+": "+err.Type.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors differ (-want,+got):\n%s", diff)
			}
		})
	}
}

func gatesOfLength(n, length int) []features.ReportedFeature {
	var out []features.ReportedFeature
	for i := range n {
		out = append(out, features.ReportedFeature{Name: fmt.Sprintf("G%0*d", length-1, i), Value: "Disabled"})
	}
	return out
}
