// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// TestFeatureOfAnotherComponentIsNotRemoved has two components with versions of their own in one namespace, and a Feature that no
// live replica announces.
func TestFeatureOfAnotherComponentIsNotRemoved(t *testing.T) {
	t.Parallel()
	by := func(component string, f *v1alpha1.Feature) *v1alpha1.Feature {
		f.Status.Component = component
		return f
	}
	for name, tc := range map[string]struct {
		feature  *v1alpha1.Feature
		replicas []replica
		remove   bool
	}{
		"the component is past retention":                               {by("mine", feature("Off", off, byFlag)), []replica{lacks("a", "mine", "v1.8.0"), lacks("b", "other", "v1.5.0")}, true},
		"another component is":                                          {by("mine", feature("Off", off, byFlag)), []replica{lacks("a", "mine", "v1.5.1"), lacks("b", "other", "v1.9.0")}, false},
		"another component is, and the component is gone":               {by("mine", feature("Off", off, byFlag)), []replica{lacks("b", "other", "v1.9.0")}, false},
		"the component was not recorded":                                {by("", feature("Off", off, byFlag)), []replica{lacks("b", "other", "v1.9.0")}, false},
		"on, and its uses in storage were not counted":                  {by("mine", feature("On", on, byFlag)), []replica{lacks("a", "mine", "v1.8.0")}, false},
		"on, and nothing in storage uses it":                            {dangling(0, by("mine", feature("On", on, byFlag))), []replica{lacks("a", "mine", "v1.8.0")}, true},
		"off, and nothing in storage uses it":                           {dangling(0, by("mine", feature("Off", off, byFlag))), []replica{lacks("a", "mine", "v1.8.0")}, true},
		"turning off, and nothing in storage uses it":                   {dangling(0, by("mine", feature("TurningOff", off, byFlag, "Sweep Pending"))), []replica{lacks("a", "mine", "v1.8.0")}, false},
		"the component is of another major version":                     {by("mine", feature("Off", off, byFlag)), []replica{lacks("a", "mine", "v2.9.0")}, false},
		"the version of a replica cannot be read":                       {by("mine", feature("Off", off, byFlag)), []replica{lacks("a", "mine", "new")}, false},
		"the API server still refuses the deletion of an announced one": {available(by("mine", feature("Off", off, byFlag))), []replica{lacks("a", "mine", "v1.8.0")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(tc.feature, look(tc.replicas...))
			if got.remove != tc.remove {
				t.Errorf("removed: %v, want %v", got.remove, tc.remove)
			}
			if !got.remove && !meta.IsStatusConditionFalse(got.status.Conditions, v1alpha1.FeatureAvailable) {
				t.Errorf("conditions are %v, want Available False", got.status.Conditions)
			}
		})
	}
}

func available(f *v1alpha1.Feature) *v1alpha1.Feature {
	f.Status.Conditions = decide(feature(f.Status.State, f.Status.Configured, f.Status.Source), look(says("a", off, byFlag))).status.Conditions
	return f
}

// TestAnnouncingComponentIsRecorded takes the component whose version the Feature has.
func TestAnnouncingComponentIsRecorded(t *testing.T) {
	t.Parallel()
	other := says("b", off, byFlag, func(a *announcement) { a.Version = "v1.4.0" })
	other.component = "other"
	f := feature("Off", off, byFlag)
	f.Status.Component = ""
	status := decide(f, look(other, says("c", off, byFlag))).status
	if message := meta.FindStatusCondition(status.Conditions, v1alpha1.FeatureAvailable).Message; status.Component != "server" || message != "announced by server v1.5.0" {
		t.Errorf("recorded component %q, %q; want server", status.Component, message)
	}
}
