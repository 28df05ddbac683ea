// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kube-annex/annex/apis/features"
)

func TestFeatureNameIsTheGatesName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"NodeSwap":                   true,
		"a":                          true,
		"Z":                          true,
		"A1.b_c-D":                   true,
		"ends.":                      true,
		strings.Repeat("x", 253):     true,
		strings.Repeat("x", 254):     false,
		"":                           false,
		"1st":                        false,
		".hidden":                    false,
		"..":                         false,
		"_private":                   false,
		"-flag":                      false,
		"a/b":                        false,
		"a%2Fb":                      false,
		"a b":                        false,
		"NodeSwap\n":                 false,
		"Über":                       false,
		"aé":                         false,
		"a" + strings.Repeat("é", 9): false,
	} {
		if got := len(ValidateFeatureName(name, false)) == 0; got != want {
			t.Errorf("%q: got valid %v, want %v", name, got, want)
		}
	}
	if problems := ValidateFeatureName("Swap-", true); len(problems) > 0 {
		t.Errorf("a generateName is refused: %v", problems)
	}
}

func TestValidateFeature(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		desired features.Value
		canary  *features.Canary
		want    string
	}{
		"no wish":                  {},
		"enabled":                  {desired: "Enabled"},
		"disabled":                 {desired: "Disabled"},
		"canary of nobody":         {desired: "Enabled", canary: &features.Canary{}},
		"canary of one percent":    {desired: "Enabled", canary: &features.Canary{Percent: 1}},
		"canary of everyone":       {desired: "Enabled", canary: &features.Canary{Percent: 100}},
		"canary that is gone back": {desired: "Disabled", canary: &features.Canary{Percent: 20}},
		"canary before the wish":   {canary: &features.Canary{Percent: 20}},
		"canary of less":           {canary: &features.Canary{Percent: -1}, want: `spec.canary.percent: Invalid value: -1: must be from 0 (nobody) to 100 (everyone)`},
		"canary of more":           {desired: "Enabled", canary: &features.Canary{Percent: 101}, want: `spec.canary.percent: Invalid value: 101: must be from 0 (nobody) to 100 (everyone)`},
		"other case":               {desired: "enabled", want: `spec.desired: Unsupported value: "enabled": supported values: "Disabled", "Enabled"`},
		"a state":                  {desired: "On", want: `spec.desired: Unsupported value: "On": supported values: "Disabled", "Enabled"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			feature := &features.Feature{ObjectMeta: metav1.ObjectMeta{Name: "NodeSwap"}, Spec: features.FeatureSpec{Desired: tc.desired, Canary: tc.canary}}
			wantErrors(t, ValidateFeature(feature), tc.want)
			wantErrors(t, ValidateFeatureUpdate(feature, &features.Feature{}), tc.want)
		})
	}
}

func uses(n int) []features.Use {
	list := make([]features.Use, n)
	for i := range list {
		list[i] = features.Use{Component: "c", Version: fmt.Sprintf("v%d", i), Value: "Enabled"}
	}
	return list
}

func examples(n int) []features.ObjectReference {
	list := make([]features.ObjectReference, n)
	for i := range list {
		list[i] = features.ObjectReference{Resource: "pods", Name: "p"}
	}
	return list
}

func TestValidateFeatureStatus(t *testing.T) {
	t.Parallel()
	condition := metav1.Condition{Type: "Settled", Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.Now()}
	task := func(change func(*features.Task)) features.FeatureStatus {
		task := features.Task{Name: "ClearField", State: "Running"}
		change(&task)
		return features.FeatureStatus{Tasks: []features.Task{{Name: "First", State: "Pending"}, task}}
	}
	use := func(change func(*features.Use)) features.FeatureStatus {
		use := features.Use{Component: "kubelet", Version: "v1.37.1", Value: "Enabled"}
		change(&use)
		return features.FeatureStatus{Uses: []features.Use{use}}
	}
	total := func(n int64) *int64 { return &n }
	for name, tc := range map[string]struct {
		status features.FeatureStatus
		// want are paths and types of the errors.
		want []string
	}{
		"empty": {},
		"everything": {status: features.FeatureStatus{
			ObservedGeneration: 3, Stability: "Beta", Locked: true, Dynamic: true, Version: "v1.37.1", Default: "Enabled", Configured: "Disabled",
			Source: "CommandLine", State: "TurningOff", Tasks: []features.Task{{Name: "WaitForUses", State: "Failed", Done: 2, Total: total(2), Attempts: 1}},
			Uses: uses(64), DanglingReferences: &features.DanglingReferences{Count: 10, Examples: examples(10)}, Conditions: []metav1.Condition{condition},
		}},
		"enums": {
			status: features.FeatureStatus{Stability: "alpha", Default: "On", Configured: "true", Source: "Flag", State: "Enabled"},
			want: []string{
				"status.stability: Unsupported value", "status.default: Unsupported value", "status.configured: Unsupported value",
				"status.source: Unsupported value", "status.state: Unsupported value",
			},
		},
		"version of 64 runes":      {status: features.FeatureStatus{Version: strings.Repeat("é", 64)}},
		"version of 65 characters": {status: features.FeatureStatus{Version: strings.Repeat("x", 65)}, want: []string{"status.version: Too long"}},
		"component of 64 letters":  {status: features.FeatureStatus{Component: strings.Repeat("x", 64)}, want: []string{"status.component: Too long"}},
		"negative generation":      {status: features.FeatureStatus{ObservedGeneration: -1}, want: []string{"status.observedGeneration: Invalid value"}},
		"task without name":        {status: task(func(t *features.Task) { t.Name = "" }), want: []string{"status.tasks[1].name: Required value"}},
		"task without state":       {status: task(func(t *features.Task) { t.State = "" }), want: []string{"status.tasks[1].state: Required value"}},
		"task in an unknown state": {status: task(func(t *features.Task) { t.State = "Done" }), want: []string{"status.tasks[1].state: Unsupported value"}},
		"done without total":       {status: task(func(t *features.Task) { t.Done = 5 })},
		"done equals total":        {status: task(func(t *features.Task) { t.Done, t.Total = 5, total(5) })},
		"done above total":         {status: task(func(t *features.Task) { t.Done, t.Total = 6, total(5) }), want: []string{"status.tasks[1].done: Invalid value"}},
		"nothing to do":            {status: task(func(t *features.Task) { t.Total = total(0) })},
		"negative done":            {status: task(func(t *features.Task) { t.Done = -1 }), want: []string{"status.tasks[1].done: Invalid value"}},
		"negative total":           {status: task(func(t *features.Task) { t.Done, t.Total = -2, total(-1) }), want: []string{"status.tasks[1].done: Invalid value", "status.tasks[1].total: Invalid value"}},
		"negative attempts":        {status: task(func(t *features.Task) { t.Attempts = -1 }), want: []string{"status.tasks[1].attempts: Invalid value"}},
		"65 uses":                  {status: features.FeatureStatus{Uses: uses(65)}, want: []string{"status.uses: Too many"}},
		"use without component":    {status: use(func(u *features.Use) { u.Component = "" }), want: []string{"status.uses[0].component: Required value"}},
		"use without version":      {status: use(func(u *features.Use) { u.Version = "" }), want: []string{"status.uses[0].version: Required value"}},
		"version is not UTF-8":     {status: features.FeatureStatus{Version: "v\xff"}, want: []string{"status.version: Invalid value"}},
		"uses are not UTF-8": {
			status: use(func(u *features.Use) { u.Component, u.Version, u.Reporter = "c\xff", "v\xff", "r\xff" }),
			want:   []string{"status.uses[0].component: Invalid value", "status.uses[0].version: Invalid value", "status.uses[0].reporter: Invalid value"},
		},
		"uses with control characters": {
			status: use(func(u *features.Use) { u.Component, u.Version, u.Reporter = "c\x1b[2J", "v\x7f", "r\u009b" }),
			want:   []string{"status.uses[0].component: Invalid value", "status.uses[0].version: Invalid value", "status.uses[0].reporter: Invalid value"},
		},
		"use without value":         {status: use(func(u *features.Use) { u.Value = "" }), want: []string{"status.uses[0].value: Required value"}},
		"use with another value":    {status: use(func(u *features.Use) { u.Value = "Maybe" }), want: []string{"status.uses[0].value: Unsupported value"}},
		"component of 63 runes":     {status: use(func(u *features.Use) { u.Component = strings.Repeat("é", 63) })},
		"component of 64 runes":     {status: use(func(u *features.Use) { u.Component = strings.Repeat("é", 64) }), want: []string{"status.uses[0].component: Too long"}},
		"use of a long version":     {status: use(func(u *features.Use) { u.Version = strings.Repeat("x", 65) }), want: []string{"status.uses[0].version: Too long"}},
		"reporter of 254 runes":     {status: use(func(u *features.Use) { u.Reporter = strings.Repeat("x", 254) }), want: []string{"status.uses[0].reporter: Too long"}},
		"the same use twice":        {status: features.FeatureStatus{Uses: append(uses(2), uses(1)...)}, want: []string{"status.uses[2]: Duplicate value"}},
		"uses that differ in value": {status: features.FeatureStatus{Uses: append(uses(1), features.Use{Component: "c", Version: "v0", Value: "Disabled"})}},
		"11 examples":               {status: features.FeatureStatus{DanglingReferences: &features.DanglingReferences{Count: 11, Examples: examples(11)}}, want: []string{"status.danglingReferences.examples: Too many"}},
		"more examples than counted": {
			status: features.FeatureStatus{DanglingReferences: &features.DanglingReferences{Count: 1, Examples: examples(2)}},
			want:   []string{"status.danglingReferences.count: Invalid value"},
		},
		"negative count": {
			status: features.FeatureStatus{DanglingReferences: &features.DanglingReferences{Count: -1}},
			want:   []string{"status.danglingReferences.count: Invalid value"},
		},
		"example of nothing": {
			status: features.FeatureStatus{DanglingReferences: &features.DanglingReferences{Count: 1, Examples: []features.ObjectReference{{}}}},
			want:   []string{"status.danglingReferences.examples[0].resource: Required value", "status.danglingReferences.examples[0].name: Required value"},
		},
		"a condition twice": {
			status: features.FeatureStatus{Conditions: []metav1.Condition{condition, condition}},
			want:   []string{"status.conditions[1]: Duplicate value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range ValidateFeatureStatusUpdate(&features.Feature{Status: tc.status}, &features.Feature{}) {
				got = append(got, err.Field+": "+err.Type.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors differ (-want,+got):\n%s", diff)
			}
		})
	}
}

// wantErrors compares the full text of the errors; an empty one means none.
func wantErrors(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	if len(want) == 1 && want[0] == "" {
		want = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors differ (-want,+got):\n%s", diff)
	}
}
