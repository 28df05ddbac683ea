// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featuregating

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/gatedfield"
	"github.com/kube-annex/annex/featuregate/lifecycle"
	"github.com/kube-annex/annex/server/featuregating/gates"
)

func sorted(s []string) []string {
	slices.Sort(s)
	return slices.Clip(append([]string{}, s...))
}

var (
	things = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}
	wholes = schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "wholes"}
)

func field(gate, path string, policy gatedfield.Policy) gatedfield.Field {
	return gatedfield.Field{Gate: gate, Kind: things.GroupVersion().WithKind("Thing"), Path: strings.Fields(path), WhenOff: policy}
}

func configOf(t *testing.T, gate featuregate.MutableVersionedFeatureGate, gated gates.Gated) Config {
	t.Helper()
	reporter, err := NewReporter(gate, gated, "test", "one")
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Gates: reporter, Gated: gated, Instance: "one", Loopback: &rest.Config{Host: "https://127.0.0.1:1"}, Host: fake.NewClientset(&corev1.Namespace{}),
		Resources: map[schema.GroupVersionKind]schema.GroupVersionResource{
			things.GroupVersion().WithKind("Thing"): things, wholes.GroupVersion().WithKind("Whole"): wholes,
		},
	}
}

// TestOwnFeaturesSayWhatTheGatesAre has a new gate announced without a line here.
func TestOwnFeaturesSayWhatTheGatesAre(t *testing.T) {
	t.Parallel()
	own := moreGates(t)
	if err := own.Set("NodeBalloonReclaimPolicy=false,AllBeta=true,Leaving=false"); err != nil {
		t.Fatal(err)
	}
	o := parsed(t, "--dynamic-features=annex-system/FeatureCanary")
	wanted, _ := o.read(own)
	got, err := ownFeatures(configOf(t, own, gates.Gated{}), o, wanted.dynamic, Tools{})
	if err != nil {
		t.Fatal(err)
	}
	const on, off = v1alpha1.ValueEnabled, v1alpha1.ValueDisabled
	want := []lifecycle.Feature{
		{Name: "FeatureCanary", Default: off, Configured: off, Source: v1alpha1.SourceDefault, Stability: v1alpha1.StabilityAlpha, Dynamic: true},
		{Name: "GracefulLeaderTransition", Default: on, Configured: on, Source: v1alpha1.SourceCommandLine, Stability: v1alpha1.StabilityBeta},
		{Name: "Leaving", Default: on, Configured: off, Source: v1alpha1.SourceCommandLine, Stability: v1alpha1.StabilityDeprecated},
		{Name: "NodeBalloonReclaimPolicy", Default: off, Configured: off, Source: v1alpha1.SourceCommandLine, Stability: v1alpha1.StabilityAlpha},
		{Name: "Pinned", Default: on, Configured: on, Source: v1alpha1.SourceDefault, Stability: v1alpha1.StabilityBeta, Locked: true},
		{Name: "Ready", Default: on, Configured: on, Source: v1alpha1.SourceDefault, Stability: v1alpha1.StabilityGA},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

// TestTasksFollowFromWhatIsGated counts and names tasks of gates with all kinds of things that a gate can gate.
func TestTasksFollowFromWhatIsGated(t *testing.T) {
	t.Parallel()
	const gate = "NodeBalloonReclaimPolicy"
	object := func(kind, name string, spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.org/v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec,
		}}
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{things: "ThingList", wholes: "WholeList"},
		object("Thing", "with-a", map[string]any{"a": "1"}), object("Thing", "with-a-and-b", map[string]any{"a": "1", "b": "2"}),
		object("Thing", "with-nothing", map[string]any{}), object("Whole", "whole", map[string]any{}))
	for name, tc := range map[string]struct {
		gated gates.Gated
		tasks string
		// count is how many objects use the feature; -1 if nothing can.
		count int64
	}{
		"nothing":    {tasks: "", count: -1},
		"of another": {gated: gates.Gated{Fields: []gatedfield.Field{field("FeatureCanary", "spec a", gatedfield.Drop)}}, count: -1},
		"a field that is dropped": {
			gated: gates.Gated{Fields: []gatedfield.Field{field(gate, "spec a", gatedfield.Drop)}}, tasks: "ClearField", count: 2,
		},
		"a field that is rejected": {
			gated: gates.Gated{Fields: []gatedfield.Field{field(gate, "spec b", gatedfield.Reject)}}, tasks: "WaitForRemoval", count: 1,
		},
		"fields of one kind": {
			gated: gates.Gated{Fields: []gatedfield.Field{field(gate, "spec b", gatedfield.Reject), field(gate, "spec a", gatedfield.Drop)}},
			tasks: "WaitForRemoval ClearField", count: 2,
		},
		"a resource": {
			gated: gates.Gated{Resources: []gates.GatedResource{{Gate: gate, GroupVersionResource: wholes}}}, tasks: "WaitForRemoval", count: 1,
		},
		"a resource and its fields": {
			gated: gates.Gated{
				Resources: []gates.GatedResource{{Gate: gate, GroupVersionResource: things}}, Fields: []gatedfield.Field{field(gate, "spec a", gatedfield.Drop)},
			},
			tasks: "WaitForRemoval", count: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ownFeatures(configOf(t, moreGates(t), tc.gated), parsed(t), nil, Tools{Objects: client})
			if err != nil {
				t.Fatal(err)
			}
			f := got[slices.IndexFunc(got, func(f lifecycle.Feature) bool { return f.Name == gate })]
			var tasks []string
			for _, task := range f.Off {
				tasks = append(tasks, task.Name)
			}
			if diff := cmp.Diff(tc.tasks, strings.Join(tasks, " ")); diff != "" {
				t.Errorf("tasks (-want,+got):\n%s", diff)
			}
			if f.Count == nil {
				if tc.count >= 0 {
					t.Error("nothing is counted")
				}
				return
			}
			if used, err := f.Count(t.Context()); err != nil || used.Count != tc.count {
				t.Errorf("counted %+v, %v; want %d", used, err, tc.count)
			}
		})
	}
}

func TestAGatedKindWithoutAResourceIsAMistake(t *testing.T) {
	t.Parallel()
	unknown := field("FeatureCanary", "spec a", gatedfield.Drop)
	unknown.Kind.Kind = "Other"
	_, err := NewEngines(*parsed(t), configOf(t, moreGates(t), gates.Gated{Fields: []gatedfield.Field{unknown}}))
	if err == nil || !strings.Contains(err.Error(), "FeatureCanary") || !strings.Contains(err.Error(), "Other") {
		t.Errorf("got %v, want an error that names the gate and the kind", err)
	}
}

func TestAGatedFieldNeedsAGate(t *testing.T) {
	t.Parallel()
	_, err := NewReporter(gates.New(), gates.Gated{Fields: []gatedfield.Field{field("Other", "spec a", gatedfield.Drop)}}, "test", "one")
	if err == nil || !strings.Contains(err.Error(), "no feature gate Other") {
		t.Errorf("got %v, want an error that names the gate", err)
	}
}

// TestFlagsReachTheTasks that have been added in code, and the engines.
func TestFlagsReachTheTasks(t *testing.T) {
	t.Parallel()
	o := parsed(t, "--allow-data-loss", "--task-qps=7", "--feature-retention=5", "--feature-answer-window=3s", "--features=frob/Foo=true,frob/Bar=false", "--dynamic-features=frob/Foo")
	var tools Tools
	run := func(context.Context, *lifecycle.Progress) error { return nil }
	o.Tasks = map[featuregate.Feature]Tasks{"FeatureCanary": func(given Tools) (on, off []lifecycle.Task) {
		tools = given
		return []lifecycle.Task{{Name: "Prepare", Run: run}}, []lifecycle.Task{{Name: "TakeDown", Run: run}}
	}}
	e, err := NewEngines(*o, configOf(t, moreGates(t), gates.Gated{Fields: []gatedfield.Field{field("FeatureCanary", "spec a", gatedfield.Reject)}}))
	if err != nil {
		t.Fatal(err)
	}
	if !tools.AllowDataLoss || tools.Limiter.QPS() != 7 || tools.Objects == nil {
		t.Errorf("the tools are %+v", tools)
	}
	canary := e.own.Features[0]
	if len(canary.On) != 1 || len(canary.Off) != 2 || canary.Off[0].Name != "TakeDown" {
		t.Errorf("the tasks are %+v and %+v", canary.On, canary.Off)
	}
	if len(e.others) != 1 {
		t.Fatalf("there are %d namespaces besides, want 1", len(e.others))
	}
	for _, engine := range append(slices.Clone(e.others), e.own) {
		if engine.Retention != 5 || engine.Timings.AnswerWindow.Seconds() != 3 || engine.Timings.WriteGrace >= 0 || engine.Instance != "one" || engine.Version != "v0.1.0" {
			t.Errorf("the engine's options are %+v", engine)
		}
	}
	frob := e.others[0]
	slices.SortFunc(frob.Features, func(a, b lifecycle.Feature) int { return strings.Compare(a.Name, b.Name) })
	want := []lifecycle.Feature{
		{Name: "Bar", Default: v1alpha1.ValueDisabled, Configured: v1alpha1.ValueDisabled, Source: v1alpha1.SourceCommandLine},
		{Name: "Foo", Default: v1alpha1.ValueDisabled, Configured: v1alpha1.ValueEnabled, Source: v1alpha1.SourceCommandLine, Dynamic: true},
	}
	if diff := cmp.Diff(want, frob.Features); diff != "" || frob.Namespace != "frob" || frob.Component != "annex-features" {
		t.Errorf("namespace %s, component %s (-want,+got):\n%s", frob.Namespace, frob.Component, diff)
	}
	if o = parsed(t, "--task-qps=0"); o.Tasks == nil {
		o.Tasks = map[featuregate.Feature]Tasks{"FeatureCanary": func(given Tools) (on, off []lifecycle.Task) { tools = given; return nil, nil }}
	}
	if _, err = NewEngines(*o, configOf(t, moreGates(t), gates.Gated{})); err != nil || tools.Limiter != nil || tools.AllowDataLoss {
		t.Errorf("without limits the tools are %+v, %v", tools, err)
	}
}
