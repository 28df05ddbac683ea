// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycletest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	basegate "k8s.io/component-base/featuregate"
	"sigs.k8s.io/yaml"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// recorder is a test whose failures are looked at.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }

func TestCovered(t *testing.T) {
	t.Parallel()
	nothing := func(testing.TB, *rest.Config) {}
	complete := func(name string) Case { return Case{Feature: name, Use: nothing, CheckOff: nothing} }
	for name, tc := range map[string]struct {
		cases []Case
		want  []string
	}{
		"all":             {cases: []Case{complete("One"), complete("Two")}},
		"one is missing":  {cases: []Case{complete("Two")}, want: []string{"feature gate One has no case"}},
		"one too much":    {cases: []Case{complete("One"), complete("Two"), complete("Three")}, want: []string{"the case of Three is of no feature gate"}},
		"one twice":       {cases: []Case{complete("One"), complete("Two"), complete("One")}, want: []string{"feature gate One has 2 cases"}},
		"nothing checked": {cases: []Case{complete("One"), {Feature: "Two", Use: nothing}}, want: []string{"feature Two lacks Use or CheckOff"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gates := basegate.NewVersionedFeatureGate(version.MajorMinor(1, 0))
			specs := map[basegate.Feature]basegate.VersionedSpecs{
				"One": {{Version: version.MajorMinor(1, 0), PreRelease: basegate.Alpha}}, "Two": {{Version: version.MajorMinor(1, 0), PreRelease: basegate.Beta}},
				"Locked": {{Version: version.MajorMinor(1, 0), PreRelease: basegate.GA, Default: true, LockToDefault: true}},
			}
			if err := gates.AddVersioned(specs); err != nil {
				t.Fatal(err)
			}
			r := &recorder{TB: t}
			Covered(r, gates, tc.cases)
			if len(r.errors) != len(tc.want) {
				t.Fatalf("got %q, want %q", r.errors, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(r.errors[i], want) {
					t.Errorf("got %q, want %q", r.errors[i], want)
				}
			}
		})
	}
}

func TestExclusions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ object, want string }{
		"a lease":  {object: "{apiVersion: coordination.k8s.io/v1, kind: Lease}", want: "null"},
		"an event": {object: "{apiVersion: v1, kind: Event}", want: "null"},
		"versions and times": {
			object: "{kind: A, metadata: {name: a, uid: u, resourceVersion: '3', generation: 2, managedFields: [{manager: b, time: now}, {manager: a, time: then}]}, status: {observedGeneration: 2, x: 1}}",
			want:   "{kind: A, metadata: {name: a, uid: u, managedFields: [{manager: a}, {manager: b}]}, status: {x: 1}}",
		},
		"a feature": {
			object: "{apiVersion: features.k8s.io/v1alpha1, kind: Feature, metadata: {name: A}, spec: {desired: Enabled, canary: {percent: 1}}, status: {state: 'Off', version: v1}}",
			want:   "{apiVersion: features.k8s.io/v1alpha1, kind: Feature, metadata: {name: A}, spec: {canary: {percent: 1}}, state: 'Off'}",
		},
		"an APIService": {
			object: "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: {a: b}, status: {conditions: []}}",
			want:   "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: {a: b}}",
		},
		"another status": {object: "{kind: A, status: {conditions: []}}", want: "{kind: A, status: {conditions: []}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var object unstructured.Unstructured
			var want any
			if err := yaml.Unmarshal([]byte(tc.object), &object.Object); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			r := &runner{exclusions: always()}
			got := any(object.Object)
			if !r.exclude(&object) {
				got = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what is compared (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestDifference(t *testing.T) {
	t.Parallel()
	was, is := snapshot{objects: map[string]string{"same": `{"a":1}`, "gone": `{}`, "other": `{"a":1,"b":2}`}, published: map[string]string{"spec": "1"}},
		snapshot{objects: map[string]string{"same": `{"a":1}`, "new": `{"c":3}`, "other": `{"a":1,"b":4}`}, published: map[string]string{"spec": "1"}}
	if same(everything(was), everything(is)) || !same(onlyPublished(was), onlyPublished(is)) || !same(everything(was), everything(was)) {
		t.Error("what is the same is not what it was")
	}
	got := difference(everything(was), everything(is))
	for _, want := range []string{"- gone", "+ new\nc: 3", "  other\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the difference lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "same") || strings.Contains(got, "spec") {
		t.Errorf("the difference has what is the same:\n%s", got)
	}
}

func TestWhatTheAggregatorMergedLastDoesNotCount(t *testing.T) {
	t.Parallel()
	document := `{"definitions":{"io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions":{"type":"object","x-kubernetes-group-version-kind":[1]},"org.example.v1.Frob":{"x-kubernetes-group-version-kind":[2]}}}`
	got, err := withoutMerged([]byte(document))
	want := `{"definitions":{"io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions":{"type":"object"},"org.example.v1.Frob":{"x-kubernetes-group-version-kind":[2]}}}`
	if err != nil || got != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
}

// TestKillsLearn has transitions that take another time than the undisturbed one took: kills must come to meet most of them.
func TestKillsLearn(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second} {
		p, of := parts{}, part{partOn, byFlags}
		p.note(of, time.Second)
		met := 0
		for i := range 200 {
			at := p[of] * time.Duration(i%20) / 20
			hit := at < takes
			p.learn(of, hit)
			if i >= 100 && hit {
				met++
			}
		}
		if met < 60 || p[of] < takes*3/4 {
			t.Errorf("of a transition that takes %s, kills within %s met %d of 100; want most of all points", takes, p[of], met)
		}
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	way := &v1alpha1.Feature{Status: v1alpha1.FeatureStatus{State: v1alpha1.StateTurningOff, Tasks: []v1alpha1.Task{{Name: "ClearField"}}}}
	r := &recorder{TB: t}
	c := tally{met: map[string]int{}}
	if !c.add(map[string]*v1alpha1.Feature{"One": way, "Two": {}}) || c.met["ClearField of One TurningOff"] != 1 {
		t.Errorf("a kill that met a feature on its way counts as %+v", c)
	}
	for range 3 {
		if c.add(map[string]*v1alpha1.Feature{"One": {}}) {
			t.Error("a kill that met nothing counts")
		}
	}
	if c.report(r); len(r.errors) != 0 {
		t.Errorf("one of four is too few: %s", r.errors)
	}
	c.add(nil)
	if c.report(r); len(r.errors) != 1 {
		t.Errorf("one of five is enough: %s", r.errors)
	}
}
