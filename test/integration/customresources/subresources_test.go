// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
)

// testSubresources has status and scale.
func testSubresources(t *testing.T, w *world) {
	o := w.define(t, "Scaled", "names: {plural: scaled}\n"+oneVersion(`
spec: {type: object, properties: {replicas: {type: integer, minimum: 0}, other: {type: string}}}
status: {type: object, properties: {replicas: {type: integer}, selector: {type: string}, phase: {type: string, enum: [good, bad]}}}`)+`
  subresources:
    status: {}
    scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}`)
	created := o.create(t, "a", "spec: {replicas: 1}\nstatus: {phase: good}")
	if diff := cmp.Diff(map[string]any{"spec": map[string]any{"replicas": int64(1)}}, content(created)); diff != "" || created.GetGeneration() != 1 {
		t.Errorf("created with a status: generation %d, want 1 (-want,+got):\n%s", created.GetGeneration(), diff)
	}
	wantGeneration := func(what string, want int64, object *unstructured.Unstructured, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if object.GetGeneration() != want {
			t.Errorf("%s: generation is %d, want %d", what, object.GetGeneration(), want)
		}
	}
	changed, err := o.merge(t.Context(), "a", `{"spec":{"other":"x"},"status":{"phase":"bad"}}`)
	wantGeneration("the spec", 2, changed, err)
	if _, ok := content(changed)["status"]; ok {
		t.Error("a status was written with the object")
	}
	changed, err = o.merge(t.Context(), "a", `{"metadata":{"labels":{"l":"x"}}}`)
	wantGeneration("a label", 2, changed, err)
	changed, err = o.merge(t.Context(), "a", `{"spec":{"other":"y"},"metadata":{"labels":{"l":"y"}},"status":{"phase":"good","replicas":1,"selector":"app=a"}}`, "status")
	wantGeneration("the status", 2, changed, err)
	want := map[string]any{
		"spec":   map[string]any{"replicas": int64(1), "other": "x"},
		"status": map[string]any{"phase": "good", "replicas": int64(1), "selector": "app=a"},
	}
	if diff := cmp.Diff(want, content(changed)); diff != "" || changed.GetLabels()["l"] != "x" {
		t.Errorf("after writing the status: labels %v (-want,+got):\n%s", changed.GetLabels(), diff)
	}
	_, err = o.merge(t.Context(), "a", `{"status":{"phase":"odd"}}`, "status")
	wantInvalid(t, err, "status.phase: Unsupported value")

	groupResource := o.resource("scaled").GroupResource()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(w.Kubernetes.Discovery()))
	scales, err := scale.NewForConfig(w.Config, mapper, dynamic.LegacyAPIPathResolverFunc, scale.NewDiscoveryScaleKindResolver(w.Kubernetes.Discovery()))
	if err != nil {
		t.Fatal(err)
	}
	scaled, err := scales.Scales("default").Get(t.Context(), groupResource, "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{int32(1), int32(1), "app=a"}, []any{scaled.Spec.Replicas, scaled.Status.Replicas, scaled.Status.Selector}); diff != "" {
		t.Errorf("the scale (-want,+got):\n%s", diff)
	}
	scaled.Spec = autoscalingv1.ScaleSpec{Replicas: 3}
	if _, err := scales.Scales("default").Update(t.Context(), groupResource, scaled, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	read, err := o.Get(t.Context(), "a", metav1.GetOptions{})
	wantGeneration("the scale", 3, read, err)
	w.kubectl.Want(t, `scaled.test.example.com/a scaled`, "scale", "scaled/a", "--replicas=5", "--current-replicas=3")
	read, err = o.Get(t.Context(), "a", metav1.GetOptions{})
	wantGeneration("kubectl scale", 4, read, err)
	if replicas, _, _ := unstructured.NestedInt64(read.Object, "spec", "replicas"); replicas != 5 {
		t.Errorf("there are to be %d replicas, want 5", replicas)
	}
	w.kubectl.WantError(t, `should be greater than or equal to 0|must be greater than or equal to 0`, "scale", "scaled/a", "--replicas=-2")
}
