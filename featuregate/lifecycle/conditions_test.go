// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

func TestConflictNamesWhoDisagrees(t *testing.T) {
	t.Parallel()
	got := decide(feature("On", on, byFlag), look(says("b", off, byFlag), says("a", on, byFlag), lacks("c", "server", "v1.4.0")))
	conflict := meta.FindStatusCondition(got.status.Conditions, v1alpha1.FeatureConflict)
	const want = "a (v1.5.0) wants Enabled, b (v1.5.0) wants Disabled, c (v1.4.0) does not know it"
	if conflict.Message != want {
		t.Errorf("got %q, want %q", conflict.Message, want)
	}
}

func TestHighestVersionDescribesTheFeature(t *testing.T) {
	t.Parallel()
	replicas := []replica{
		says("a", on, byFlag, func(a *announcement) {
			a.Version, a.Stability, a.Locked, a.Default = "v1.10.0", v1alpha1.StabilityGA, true, on
		}),
		says("b", on, byFlag, func(a *announcement) { a.Version = "v1.9.0" }),
	}
	for range 2 {
		f := feature("On", on, byFlag)
		f.Status.Default = off
		got := decide(f, look(replicas...)).status
		if got.Version != "v1.10.0" || got.Stability != v1alpha1.StabilityGA || !got.Locked || got.Default != on {
			t.Errorf("got version %s, %s, locked %v, default %s; want what v1.10.0 says", got.Version, got.Stability, got.Locked, got.Default)
		}
		replicas[0], replicas[1] = replicas[1], replicas[0]
	}
}

func TestSafety(t *testing.T) {
	t.Parallel()
	stability := func(s v1alpha1.Stability) func(*announcement) { return func(a *announcement) { a.Stability = s } }
	for name, tc := range map[string]struct {
		feature *v1alpha1.Feature
		view    input
		want    string
	}{
		"beta on":       {feature("On", on, byFlag), look(says("a", on, byFlag)), "True Safe"},
		"alpha off":     {feature("Off", off, byFlag), look(says("a", off, byFlag, stability("Alpha"))), "True Safe"},
		"alpha on":      {feature("On", on, byFlag), look(says("a", on, byFlag, stability("Alpha"))), "False AlphaOn"},
		"prealpha on":   {feature("On", on, byFlag), look(says("a", on, byFlag, stability("PreAlpha"))), "False AlphaOn"},
		"deprecated on": {feature("On", on, byFlag), look(says("a", on, byFlag, stability("Deprecated"))), "False DeprecatedOn"},
		"dangling":      {dangling(1, feature("Off", off, byFlag)), look(says("a", off, byFlag)), "False ReferencesLeft"},
		"conflict":      {feature("Off", off, byFlag), look(says("a", off, byFlag), says("b", on, byFlag)), "False Conflict"},
		"on its way":    {feature("Off", off, byFlag), look(says("a", on, byFlag)), "False Transition"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conditions := decide(tc.feature, tc.view).status.Conditions
			for _, kind := range []string{v1alpha1.FeatureSafeToUpgrade, v1alpha1.FeatureSafeToDowngrade} {
				c := meta.FindStatusCondition(conditions, kind)
				if got := fmt.Sprintf("%s %s", c.Status, c.Reason); got != tc.want {
					t.Errorf("%s: got %s, want %s", kind, got, tc.want)
				}
			}
		})
	}
}

func TestSafetyKnowsWhatVersionsWouldChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		feature  *v1alpha1.Feature
		version  string
		up, down string
	}{
		"on, with a change in this minor version and in the next":  {stored("v1.5.3", "On"), "v1.5.3", "ChangesData Upgrade/v1.6.0/Up6", "ChangesData Downgrade/v1.5.0/Down5"},
		"off, with a change in this minor version and in the next": {stored("v1.5.3", "Off"), "v1.5.3", "Safe", "Safe"},
		"on, with a change in this minor version":                  {stored("v1.6.0", "On"), "v1.6.0", "Safe", "ChangesData Downgrade/v1.6.0/Down6"},
		"on, with no change near":                                  {stored("v1.8.0", "On"), "v1.8.0", "Safe", "Safe"},
		"on, of another major version":                             {stored("v2.5.0", "On"), "v2.5.0", "Safe", "Safe"},
	} {
		conditions := decide(tc.feature, lookVersioned(runs("a", tc.version, valueOf(tc.feature.Status.State)))).status.Conditions
		for kind, want := range map[string]string{v1alpha1.FeatureSafeToUpgrade: tc.up, v1alpha1.FeatureSafeToDowngrade: tc.down} {
			reason, task, _ := strings.Cut(want, " ")
			c := meta.FindStatusCondition(conditions, kind)
			if c.Reason != reason || !strings.Contains(c.Message, task) {
				t.Errorf("%s: %s has reason %s: %s; want %s", name, kind, c.Reason, c.Message, want)
			}
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	timings := Timings{}.withDefaults()
	for attempts, want := range map[int32]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 100: 5 * time.Minute} {
		if got := timings.backoff(attempts); got != want {
			t.Errorf("after %d attempts: got %s, want %s", attempts, got, want)
		}
	}
	failed := attempted(feature("TurningOff", off, byFlag, "Sweep Running"))
	got := decide(failed, with(look(says("a", off, byFlag)), attempting(taskRunState{state: "TurningOff", task: "Sweep", ended: true, err: errors.New("no")})))
	if want := now.Add(2 * time.Second); !got.retryAt.Equal(want) || got.requeueAfter != 2*time.Second {
		t.Errorf("the second attempt failed: the next is at %s, in %s, want in 2s", got.retryAt, got.requeueAfter)
	}
	early := with(look(says("a", off, byFlag)), func(v *input) { v.notBefore = now.Add(time.Second) })
	if got := decide(feature("TurningOff", off, byFlag, "Sweep Failed"), early); got.start || got.requeueAfter != time.Second {
		t.Errorf("a second before the next attempt is due: start %v, look again in %s", got.start, got.requeueAfter)
	}
}
