// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

func feature(state v1alpha1.State, generation, observed int64, tasks ...v1alpha1.Task) *v1alpha1.Feature {
	return &v1alpha1.Feature{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "Foo", Generation: generation},
		Spec:       v1alpha1.FeatureSpec{Desired: v1alpha1.ValueDisabled},
		Status:     v1alpha1.FeatureStatus{Dynamic: true, State: state, ObservedGeneration: observed, Tasks: tasks},
	}
}

func failed(attempts int32) v1alpha1.Task {
	return v1alpha1.Task{Name: "ClearField", State: v1alpha1.TaskFailed, Attempts: attempts, Message: "no\nluck"}
}

func TestWaitJudges(t *testing.T) {
	t.Parallel()
	running := v1alpha1.Task{Name: "ClearField", State: v1alpha1.TaskRunning}
	withdrawn := feature(v1alpha1.StateTurningOff, 2, 2)
	withdrawn.Spec.Desired = ""
	fixed := feature(v1alpha1.StateOn, 2, 2)
	fixed.Status.Dynamic = false
	tests := map[string]struct {
		start *v1alpha1.Feature
		then  []*v1alpha1.Feature
		done  bool
		err   string
	}{
		"the state is what is wished":                {feature("On", 2, 1), []*v1alpha1.Feature{feature("Off", 2, 2)}, true, ""},
		"the state is of an older wish":              {feature("Off", 2, 1), []*v1alpha1.Feature{feature("Off", 2, 1)}, false, ""},
		"a failed task of an older wish":             {feature("TurningOn", 2, 1), []*v1alpha1.Feature{feature("TurningOn", 2, 1, failed(1))}, false, ""},
		"a task fails":                               {feature("On", 2, 1), []*v1alpha1.Feature{feature("TurningOff", 2, 2, failed(1))}, false, "ClearField failed (attempt 1): no luck"},
		"a task had failed before":                   {feature("TurningOff", 2, 2, failed(3)), []*v1alpha1.Feature{feature("TurningOff", 2, 2, failed(3))}, false, ""},
		"a task had failed before and fails again":   {feature("TurningOff", 2, 2, failed(3)), []*v1alpha1.Feature{feature("TurningOff", 2, 2, failed(4))}, false, "attempt 4"},
		"a task had failed before, ran, and fails":   {feature("TurningOff", 2, 2, failed(3)), []*v1alpha1.Feature{feature("TurningOff", 2, 2, running), feature("TurningOff", 2, 2, failed(1))}, false, "attempt 1"},
		"someone takes the wish back":                {feature("On", 2, 2), []*v1alpha1.Feature{withdrawn}, false, "someone else has changed spec.desired to nothing"},
		"the server no longer listens to the wish":   {feature("On", 2, 2), []*v1alpha1.Feature{fixed}, false, "no longer dynamic"},
		"the last task is at work, nothing is wrong": {feature("On", 2, 2), []*v1alpha1.Feature{feature("TurningOff", 2, 2, running)}, false, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWait(tc.start, v1alpha1.ValueDisabled, func(*v1alpha1.Feature) {})
			var done bool
			var err error
			for _, next := range tc.then {
				if done, err = w.judge(next); done || err != nil {
					break
				}
			}
			said := ""
			if err != nil {
				said = err.Error()
			}
			if done != tc.done || (tc.err == "") != (err == nil) || !strings.Contains(said, tc.err) {
				t.Errorf("done %t, error %q; want %t, %q", done, said, tc.done, tc.err)
			}
		})
	}
}

func TestScreen(t *testing.T) {
	t.Parallel()
	history := []*v1alpha1.Feature{
		feature("On", 2, 1),
		feature("TurningOff", 2, 2, v1alpha1.Task{Name: "ClearField", State: v1alpha1.TaskRunning, Done: 5, Total: ptr.To[int64](10), Message: "a\x1b[2Jb"}),
		feature("TurningOff", 2, 2, v1alpha1.Task{Name: "ClearField", State: v1alpha1.TaskRunning, Done: 5, Total: ptr.To[int64](10), Message: "a\x1b[2Jb"}),
		feature("Off", 2, 2),
	}
	tests := map[string]struct {
		width func() int
		want  string
	}{
		"a line a change": {nil, "Foo On, the wish has not been seen by the feature's server yet\n" +
			"Foo TurningOff: ClearField [##########----------] 50% 5/10, a^[[2Jb\nFoo Off\n"},
		"one line drawn again": {func() int { return 20 }, "\rFoo On, the wish ha\x1b[K\rFoo TurningOff: Cle\x1b[K\rFoo Off\x1b[K\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			s := newScreen(&out)
			s.width = tc.width
			for _, f := range history {
				s.show(f)
			}
			s.end()
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("screen (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestSimilarNames(t *testing.T) {
	t.Parallel()
	names := []string{"NodeSwap", "NodeSwapExtra", "OpenAPIV3", "OpenAPIV2", "MaxUnavailableStatefulSet"}
	tests := map[string][]string{
		"nodeswap":                 {"NodeSwap", "NodeSwapExtra"},
		"NodeSwp":                  {"NodeSwap"},
		"OpenAPI":                  {"OpenAPIV2", "OpenAPIV3"},
		"MaxUnavailableStatfulSet": {"MaxUnavailableStatefulSet"},
		"Nothing":                  nil,
	}
	for name, want := range tests {
		if diff := cmp.Diff(want, similar(name, names)); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", name, diff)
		}
	}
}
