// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package features_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/features/install"
	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/generated/openapi"
	"github.com/kube-annex/annex/registry/features"
	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

func TestMain(m *testing.M) { resourcetest.Main(m) }

func start(t *testing.T) *resourcetest.Server {
	t.Helper()
	scheme := resource.NewScheme(install.Install)
	return resourcetest.Start(t, resourcetest.Options{
		Scheme:      scheme,
		Codecs:      serializer.NewCodecFactory(scheme),
		Definitions: openapi.GetOpenAPIDefinitions,
		Version:     v1alpha1.SchemeGroupVersion,
		Install:     features.Install,
	})
}

func clientFor(t *testing.T, server *resourcetest.Server) *versioned.Clientset {
	t.Helper()
	return clientForConfig(t, server.Config)
}

func clientForConfig(t *testing.T, config *rest.Config) *versioned.Clientset {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestFeature(t *testing.T) {
	t.Parallel()
	resourcetest.Run(t, start(t), resourcetest.Case{
		Resource:    v1alpha1.SchemeGroupVersion.WithResource("features"),
		Kind:        "Feature",
		Namespace:   "kube-system",
		Names:       []string{"NodeSwap", "PodLevel_Resources", "a.b-c"},
		Spec:        map[string]any{},
		ChangedSpec: map[string]any{"desired": "Enabled"},
		Status: map[string]any{
			"state": "TurningOn", "source": "CommandLine", "stability": "Beta", "default": "Disabled",
			"tasks": []any{map[string]any{"name": "ClearField", "state": "Running", "done": int64(40), "total": int64(100)}},
		},
		InvalidSpec:    map[string]any{"desired": "Maybe"},
		InvalidMessage: "spec.desired",
		Columns:        []string{"Name", "State", "Stability", "Default", "Source", "Uses", "Task", "Age", "Version", "Safe-To-Upgrade"},
		Selectable: map[string]bool{
			"status.state=TurningOn": true, "status.state=Off": false, "status.source=CommandLine": true, "status.source=Observed": false,
			"metadata.namespace=kube-system": true,
		},
		ShortNames: []string{"feat"},
	})
}

func TestFeatureNames(t *testing.T) {
	t.Parallel()
	client := clientFor(t, start(t)).FeaturesV1alpha1().Features("default")
	for name, valid := range map[string]bool{
		"NodeSwap": true, "a": true, "A.b_c-D9": true, strings.Repeat("a", 253): true,
		"9lives": false, "_a": false, "a/b": false, "a b": false, "ä": false, strings.Repeat("a", 254): false,
	} {
		_, err := client.Create(t.Context(), &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if valid && err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if !valid && !apierrors.IsInvalid(err) {
			t.Errorf("%q: got %v, want 422", name, err)
		}
	}
}

func report(component, version string, value v1alpha1.Value, names ...string) *v1alpha1.FeatureReport {
	out := &v1alpha1.FeatureReport{Spec: v1alpha1.FeatureReportSpec{Component: component, Version: version, Instance: component + "-0"}}
	for _, name := range names {
		out.Spec.Features = append(out.Spec.Features, v1alpha1.ReportedFeature{Name: name, Value: value, Default: v1alpha1.ValueDisabled, Stability: v1alpha1.StabilityAlpha})
	}
	return out
}

func TestReportsAreMergedIntoFeatures(t *testing.T) {
	t.Parallel()
	client := clientFor(t, start(t)).FeaturesV1alpha1()
	send := func(r *v1alpha1.FeatureReport) *v1alpha1.FeatureReport {
		t.Helper()
		out, err := client.FeatureReports("kube-system").Create(t.Context(), r, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	get := func(name string) *v1alpha1.Feature {
		t.Helper()
		out, err := client.Features("kube-system").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}

	answer := send(report("scheduler", "v1.37.1", v1alpha1.ValueEnabled, "NodeSwap", "Other"))
	want := []v1alpha1.FeatureAnswer{{Name: "NodeSwap"}, {Name: "Other"}}
	if diff := cmp.Diff(want, answer.Status.Features); diff != "" {
		t.Errorf("answer about unknown features (-want,+got):\n%s", diff)
	}
	first := get("NodeSwap")
	if first.Status.State != "" || first.Status.Stability != v1alpha1.StabilityAlpha || first.Status.Default != v1alpha1.ValueDisabled || first.Status.Version != "v1.37.1" {
		t.Errorf("a feature known from a report alone: %+v", first.Status)
	}
	if len(first.Status.Uses) != 1 || first.Status.Uses[0].Reporter != "scheduler-0" || first.Status.Uses[0].ReportTime == nil {
		t.Errorf("uses: %+v", first.Status.Uses)
	}

	first.Status.State = v1alpha1.StateOff
	announced, err := client.Features("kube-system").UpdateStatus(t.Context(), first, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	answer = send(report("scheduler", "v1.37.1", v1alpha1.ValueEnabled, "NodeSwap"))
	if got := answer.Status.Features[0].State; got != v1alpha1.StateOff {
		t.Errorf("answer: state %q, want Off", got)
	}
	if got := get("NodeSwap"); got.ResourceVersion != announced.ResourceVersion {
		t.Errorf("a report of what is listed already wrote the feature")
	}

	send(report("scheduler", "v1.38.0", v1alpha1.ValueEnabled, "NodeSwap"))
	send(report("scheduler", "v1.38.0", v1alpha1.ValueDisabled, "NodeSwap"))
	send(report("kubelet", "v1.37.1", v1alpha1.ValueEnabled, "NodeSwap"))
	last := get("NodeSwap")
	if got := len(last.Status.Uses); got != 4 {
		t.Errorf("uses by component, version and value: got %d, want 4: %+v", got, last.Status.Uses)
	}
	if last.Status.Version != "v1.37.1" {
		t.Errorf("a report changed the version of an announced feature to %s", last.Status.Version)
	}
}

func TestReportsAreNotStoredAndNotRead(t *testing.T) {
	t.Parallel()
	server := start(t)
	client := clientFor(t, server)
	r := report("scheduler", "v1", v1alpha1.ValueEnabled, "NodeSwap")
	if _, err := client.FeaturesV1alpha1().FeatureReports("default").Create(t.Context(), r, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.FeaturesV1alpha1().Features("default").Get(t.Context(), "NodeSwap", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry-run report: got %v, want NotFound", err)
	}
	err := client.FeaturesV1alpha1().RESTClient().Get().Namespace("default").Resource("featurereports").Do(t.Context()).Error()
	if !apierrors.IsMethodNotSupported(err) {
		t.Errorf("listing reports: got %v, want MethodNotSupported", err)
	}
}

func TestBadReports(t *testing.T) {
	t.Parallel()
	client := clientFor(t, start(t)).FeaturesV1alpha1().FeatureReports("default")
	for name, tc := range map[string]struct {
		spoil func(*v1alpha1.FeatureReport)
		field string
	}{
		"no component":      {func(r *v1alpha1.FeatureReport) { r.Spec.Component = "" }, "spec.component"},
		"long component":    {func(r *v1alpha1.FeatureReport) { r.Spec.Component = strings.Repeat("a", 64) }, "spec.component"},
		"long version":      {func(r *v1alpha1.FeatureReport) { r.Spec.Version = strings.Repeat("1", 65) }, "spec.version"},
		"no value":          {func(r *v1alpha1.FeatureReport) { r.Spec.Features[0].Value = "" }, "spec.features[0].value"},
		"name of a feature": {func(r *v1alpha1.FeatureReport) { r.Spec.Features[0].Name = "no/gate" }, "spec.features[0].name"},
	} {
		r := report("scheduler", "v1", v1alpha1.ValueEnabled, "NodeSwap")
		tc.spoil(r)
		if _, err := client.Create(t.Context(), r, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.field) {
			t.Errorf("%s: got %v, want 422 at %s", name, err, tc.field)
		}
	}
}

func TestUsesAreBounded(t *testing.T) {
	t.Parallel()
	client := clientFor(t, start(t)).FeaturesV1alpha1()
	for i := range 64 {
		r := report("c"+strings.Repeat("x", i%8), "v"+strings.Repeat("1", i/8+1), v1alpha1.ValueEnabled, "NodeSwap")
		if _, err := client.FeatureReports("default").Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
			t.Fatalf("report %d: %v", i, err)
		}
	}
	_, err := client.FeatureReports("default").Create(t.Context(), report("one-more", "v1", v1alpha1.ValueEnabled, "NodeSwap", "Other"), metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.features[0]") || !strings.Contains(err.Error(), "status.uses") {
		t.Errorf("the 65th use: got %v, want 422 at spec.features[0] that names status.uses", err)
	}
	full, err := client.Features("default").Get(t.Context(), "NodeSwap", metav1.GetOptions{})
	if err != nil || len(full.Status.Uses) != 64 {
		t.Errorf("the full feature: %d uses, %v", len(full.Status.Uses), err)
	}
	if other, err := client.Features("default").Get(t.Context(), "Other", metav1.GetOptions{}); err != nil || len(other.Status.Uses) != 1 {
		t.Errorf("the gate reported after a full one: got %+v, %v, want its use", other, err)
	}
}

func TestFeatureColumns(t *testing.T) {
	t.Parallel()
	server := start(t)
	client := clientFor(t, server).FeaturesV1alpha1()
	total := int64(200)
	created, err := client.Features("default").Create(t.Context(), &v1alpha1.Feature{ObjectMeta: metav1.ObjectMeta{Name: "NodeSwap"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	created.Status = v1alpha1.FeatureStatus{
		State: v1alpha1.StateTurningOff, Stability: v1alpha1.StabilityAlpha, Default: v1alpha1.ValueDisabled, Source: v1alpha1.SourceCommandLine, Version: "v1.37.1",
		Tasks: []v1alpha1.Task{{Name: "ClearField", State: v1alpha1.TaskRunning, Done: 80, Total: &total}},
		Uses: []v1alpha1.Use{
			{Component: "a", Version: "1", Value: v1alpha1.ValueEnabled}, {Component: "b", Version: "1", Value: v1alpha1.ValueEnabled},
			{Component: "c", Version: "1", Value: v1alpha1.ValueEnabled}, {Component: "d", Version: "1", Value: v1alpha1.ValueDisabled},
		},
		Conditions: []metav1.Condition{{Type: v1alpha1.FeatureSafeToUpgrade, Status: metav1.ConditionFalse, Reason: "Transition", LastTransitionTime: metav1.Now()}},
	}
	if _, err := client.Features("default").UpdateStatus(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	err = client.RESTClient().Get().Namespace("default").Resource("features").SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table)
	if err != nil {
		t.Fatal(err)
	}
	want := []any{"NodeSwap", "TurningOff", "Alpha", "Disabled", "CommandLine", "3 on, 1 off", "ClearField 40%", "v1.37.1", "False"}
	got := append(append([]any{}, table.Rows[0].Cells[:7]...), table.Rows[0].Cells[8:]...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells but for AGE (-want,+got):\n%s", diff)
	}
}
