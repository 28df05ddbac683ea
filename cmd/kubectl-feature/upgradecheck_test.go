// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// TestUpgradeCheckFailsWhenNobodyCanTell checks features of which nothing is False.
func TestUpgradeCheckFailsWhenNobodyCanTell(t *testing.T) {
	t.Parallel()
	of := func(safe, available metav1.ConditionStatus, change ...func(*v1alpha1.Feature)) v1alpha1.Feature {
		out := *feature(v1alpha1.StateOn, 2, 2)
		for kind, status := range map[string]metav1.ConditionStatus{
			v1alpha1.FeatureSafeToUpgrade: safe, v1alpha1.FeatureSafeToDowngrade: safe, v1alpha1.FeatureAvailable: available,
		} {
			if status != "" {
				out.Status.Conditions = append(out.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: "Test"})
			}
		}
		for _, c := range change {
			c(&out)
		}
		return out
	}
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	stale := func(f *v1alpha1.Feature) { f.Status.ObservedGeneration = 1 }
	observed := func(f *v1alpha1.Feature) { f.Status.Source = v1alpha1.SourceObserved }
	off := func(f *v1alpha1.Feature) { f.Status.State = v1alpha1.StateOff }
	left := func(f *v1alpha1.Feature) { f.Status.DanglingReferences = &v1alpha1.DanglingReferences{Count: 1} }
	for name, tc := range map[string]struct {
		features []v1alpha1.Feature
		// wrong is part of the error; empty where there is none.
		wrong string
	}{
		"no features":                                    {nil, "there are no features"},
		"judged by a live server":                        {[]v1alpha1.Feature{of(yes, yes)}, ""},
		"False":                                          {[]v1alpha1.Feature{of(yes, yes), of(no, yes)}, "of 2 features 1 stands in the way"},
		"of an older generation":                         {[]v1alpha1.Feature{of(yes, yes), of(yes, yes, stale)}, "of 2 features 1 stands in the way"},
		"observed, of an older generation":               {[]v1alpha1.Feature{of(yes, yes), of(unknown, yes, stale, observed)}, "of 2 features 1 stands in the way"},
		"announced by no live server":                    {[]v1alpha1.Feature{of(yes, yes), of(yes, no)}, "of 2 features 1 stands in the way"},
		"announced by no live server, with objects left": {[]v1alpha1.Feature{of(yes, yes), of(yes, no, off, left)}, "of 2 features 1 stands in the way"},
		"announced by no live server, Off and clean":     {[]v1alpha1.Feature{of(yes, yes), of(yes, no, off)}, ""},
		"announced by no live server, all Off and clean": {[]v1alpha1.Feature{of(yes, no, off)}, "a live server judges none"},
		"never announced":                                {[]v1alpha1.Feature{of(yes, yes), of("", "")}, "of 2 features 1 stands in the way"},
		"announced, but not judged":                      {[]v1alpha1.Feature{of(yes, yes), of("", yes)}, "of 2 features 1 stands in the way"},
		"some observed":                                  {[]v1alpha1.Feature{of(yes, yes), of(unknown, yes, observed)}, ""},
		"all observed":                                   {[]v1alpha1.Feature{of(unknown, yes, observed), of(unknown, yes, observed)}, "a live server judges none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for condition, move := range map[string]string{v1alpha1.FeatureSafeToUpgrade: "an upgrade", v1alpha1.FeatureSafeToDowngrade: "a downgrade"} {
				v := judge(tc.features, condition)
				var out bytes.Buffer
				err := v.conclude(&out, move)
				switch {
				case v.Safe != (tc.wrong == ""):
					t.Errorf("safe is %t, want %t: %+v", v.Safe, tc.wrong == "", v.Features)
				case tc.wrong == "" && err != nil:
					t.Errorf("got %v, want no error", err)
				case tc.wrong != "" && (err == nil || !strings.Contains(err.Error(), tc.wrong) || !strings.Contains(err.Error(), move)):
					t.Errorf("got %v, want an error about %s with %q", err, move, tc.wrong)
				}
			}
		})
	}
}
