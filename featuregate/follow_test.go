// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	basegate "k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	featuresv1alpha1 "github.com/kube-annex/annex/apis/features/v1alpha1"
)

func TestPermitted(t *testing.T) {
	t.Parallel()
	const instance = "pod-0" // its number is 4
	if got := canaryNumber(instance); got != 4 {
		t.Fatalf("the canary number of %s is %d: a change moves everyone between in and out", instance, got)
	}
	percent := func(p int32) *featuresv1alpha1.Canary { return &featuresv1alpha1.Canary{Percent: p} }
	for name, tc := range map[string]struct {
		state  featuresv1alpha1.State
		tasks  string
		canary *featuresv1alpha1.Canary
		want   verdict
	}{
		"no state":                       {want: unknown},
		"on":                             {state: "On", want: enabled},
		"off":                            {state: "Off", want: disabled},
		"turning off":                    {state: "TurningOff", tasks: "WaitForUses,ClearField", want: disabled},
		"turning on":                     {state: "TurningOn", tasks: "InstallCRD,WaitForUses", want: disabled},
		"turning on, without tasks":      {state: "TurningOn", want: disabled},
		"turning on, the last task":      {state: "TurningOn", tasks: "WaitForUses", want: enabled},
		"canary of nobody":               {state: "TurningOn", tasks: "Canary,WaitForUses", canary: percent(0), want: disabled},
		"canary of some":                 {state: "TurningOn", tasks: "Canary,WaitForUses", canary: percent(4), want: disabled},
		"canary of some more":            {state: "TurningOn", tasks: "Canary,WaitForUses", canary: percent(5), want: enabled},
		"canary of everyone":             {state: "TurningOn", tasks: "Canary,WaitForUses", canary: percent(100), want: enabled},
		"canary that was just ended":     {state: "TurningOn", tasks: "Canary,WaitForUses", want: unknown},
		"canary that was rolled back":    {state: "TurningOff", tasks: "WaitForUses", canary: percent(100), want: disabled},
		"canary that has not yet begun":  {state: "Off", canary: percent(100), want: disabled},
		"canary that has ended for good": {state: "On", canary: percent(0), want: enabled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			feature := &featuresv1alpha1.Feature{Spec: featuresv1alpha1.FeatureSpec{Canary: tc.canary}, Status: featuresv1alpha1.FeatureStatus{State: tc.state}}
			for task := range strings.SplitSeq(tc.tasks, ",") {
				if task != "" {
					feature.Status.Tasks = append(feature.Status.Tasks, featuresv1alpha1.Task{Name: task})
				}
			}
			if got := permitted(feature, instance); got != tc.want {
				t.Errorf("permitted = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCanaryIsAsLargeAsItSays(t *testing.T) {
	t.Parallel()
	in := 0
	for i := range 10000 {
		if canaryNumber(fmt.Sprintf("node-%d", i)) < 20 {
			in++
		}
	}
	if in < 1800 || in > 2200 {
		t.Errorf("%d of 10000 instances are in a canary of 20 percent", in)
	}
}

// TestFollowing takes a gate through what its Features say.
func TestFollowing(t *testing.T) {
	t.Parallel()
	type said = map[basegate.Feature]verdict
	for name, tc := range map[string]struct {
		flags  string
		follow []basegate.Feature
		depend map[basegate.Feature][]basegate.Feature
		said   []said
		// want is what is enabled of Alpha, BetaOff, Locked and Future after each step, and what the program is told.
		want []string
	}{
		"the command line decides until something is said": {
			flags: "Alpha=true", follow: []basegate.Feature{"Alpha"},
			said: []said{{}, {"Alpha": disabled}, {}, {"Alpha": enabled}},
			want: []string{"Alpha,Locked", "Locked; Alpha=false", "Locked", "Alpha,Locked; Alpha=true"},
		},
		"the first thing said is what the command line says": {
			flags: "Alpha=true", follow: []basegate.Feature{"Alpha"},
			said: []said{{"Alpha": enabled}, {"Alpha": disabled}},
			want: []string{"Alpha,Locked", "Locked; Alpha=false"},
		},
		"locked and not available": {
			follow: []basegate.Feature{"Locked", "Future", "Unheard"},
			said:   []said{{"Locked": disabled, "Future": enabled, "Unheard": enabled}},
			want:   []string{"Locked"},
		},
		"a dependency that follows, too": {
			follow: []basegate.Feature{"Alpha", "BetaOff"}, depend: map[basegate.Feature][]basegate.Feature{"Alpha": {"BetaOff"}},
			said: []said{{"Alpha": enabled}, {"Alpha": enabled, "BetaOff": enabled}, {"Alpha": enabled, "BetaOff": disabled}},
			want: []string{"Locked", "Alpha,BetaOff,Locked; Alpha=true BetaOff=true", "Locked; Alpha=false BetaOff=false"},
		},
		"a dependency of the command line": {
			flags: "BetaOff=false", follow: []basegate.Feature{"Alpha"}, depend: map[basegate.Feature][]basegate.Feature{"Alpha": {"BetaOff"}},
			said: []said{{"Alpha": enabled}}, want: []string{"Locked"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := usual(t)
			if err := base.AddDependencies(tc.depend); tc.depend != nil && err != nil {
				t.Fatal(err)
			}
			if err := base.Set(tc.flags); err != nil {
				t.Fatal(err)
			}
			var follow []Option
			for _, name := range tc.follow {
				follow = append(follow, FromAPI(name))
			}
			gate := reporting(t, base, follow...)
			var got []string
			for _, s := range tc.said {
				changes := gate.adopt(klog.Logger{}, s)
				var told, enabledNow []string
				for _, c := range changes {
					told = append(told, fmt.Sprintf("%s=%t", c.name, c.value))
				}
				for _, name := range []basegate.Feature{"Alpha", "BetaOff", "Locked", "Future"} {
					if gate.Enabled(name) {
						enabledNow = append(enabledNow, string(name))
					}
				}
				slices.Sort(told)
				step := strings.Join(enabledNow, ",")
				if len(told) > 0 {
					step += "; " + strings.Join(told, " ")
				}
				got = append(got, step)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

// TestCopiesOfFollowers have the value of the moment, and go their own way.
func TestCopiesOfFollowers(t *testing.T) {
	t.Parallel()
	gate := reporting(t, usual(t), FromAPI("Alpha"))
	gate.adopt(klog.Logger{}, map[basegate.Feature]verdict{"Alpha": enabled})
	same, reset := gate.DeepCopy().(*Gate), gate.DeepCopyAndReset().(*Gate)
	gate.adopt(klog.Logger{}, map[basegate.Feature]verdict{"Alpha": disabled})
	if got := fmt.Sprint(gate.Enabled("Alpha"), same.Enabled("Alpha"), reset.Enabled("Alpha")); got != "false true false" {
		t.Errorf("the gate, its copy and its reset copy have %s, want false true false", got)
	}
	if diff := cmp.Diff([]basegate.Feature{"Alpha"}, slices.Collect(maps.Keys(same.followed))); diff != "" {
		t.Errorf("the copy follows (-want,+got):\n%s", diff)
	}
	if len(gate.uses.all()) != 1 || len(same.uses.all()) != 1 || same.uses.find("Alpha") == gate.uses.find("Alpha") {
		t.Error("uses of a copy are those of the gate")
	}
}

// TestChangesWhileTheProgramIsTold come one after the other, in order, and nothing is settled before.
func TestChangesWhileTheProgramIsTold(t *testing.T) {
	t.Parallel()
	told := make(chan bool)
	gate := reporting(t, usual(t), FromAPI("Alpha", func(_ context.Context, enabled bool) { told <- enabled }))
	known := newView(gate, klog.Logger{})
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		known.tellProgram(ctx)
	}()
	for _, state := range []featuresv1alpha1.State{"On", "Off", "On"} {
		if err := known.Update(featureIn("Alpha", state)); err != nil {
			t.Fatal(err)
		}
		if gate.Enabled("Alpha") != (state == "On") {
			t.Errorf("the value waits until the program was told")
		}
	}
	for _, want := range []bool{true, false, true} {
		if known.snapshot().settled {
			t.Error("the view is settled although the program is still being told")
		}
		if got := <-told; got != want {
			t.Errorf("told %t, want %t", got, want)
		}
	}
	for !known.snapshot().settled {
		<-known.changed
	}
	cancel()
	<-ended
}

func featureIn(name basegate.Feature, state featuresv1alpha1.State, uses ...featuresv1alpha1.Value) *featuresv1alpha1.Feature {
	feature := &featuresv1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: string(name), ResourceVersion: "7"}}
	feature.Status.State = state
	for _, value := range uses {
		feature.Status.Uses = append(feature.Status.Uses, featuresv1alpha1.Use{Component: "bench", Version: "v1", Value: value})
	}
	return feature
}

func timeAt(at time.Time) *metav1.Time { return &metav1.Time{Time: at} }
