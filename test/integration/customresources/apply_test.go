// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// apply applies what a manager wants of an object.
func (o objects) apply(t *testing.T, manager, name, content string, force bool) (*unstructured.Unstructured, error) {
	t.Helper()
	return o.Apply(t.Context(), name, o.object(t, name, content), metav1.ApplyOptions{FieldManager: manager, Force: force})
}

func (o objects) mustApply(t *testing.T, manager, name, content string) *unstructured.Unstructured {
	t.Helper()
	applied, err := o.apply(t, manager, name, content, false)
	if err != nil {
		t.Fatal(err)
	}
	return applied
}

// testApply has several managers of one object.
func testApply(t *testing.T, w *world) {
	o := w.define(t, "Applied", "names: {plural: applied}\n"+oneVersion(`
spec:
  type: object
  properties:
    size: {type: integer}
    ports:
      type: array
      x-kubernetes-list-type: map
      x-kubernetes-list-map-keys: [port, protocol]
      items: {type: object, required: [port, protocol], properties: {port: {type: integer}, protocol: {type: string}, name: {type: string}}}
    tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
    order: {type: array, items: {type: string}}
    whole: {type: object, x-kubernetes-map-type: atomic, additionalProperties: {type: string}}
    labels: {type: object, additionalProperties: {type: string}}`))
	o.mustApply(t, "one", "a", `spec: {size: 1, ports: [{port: 80, protocol: TCP, name: web}], tags: [x], order: [a], whole: {a: b}, labels: {one: "1"}}`)
	merged := o.mustApply(t, "other", "a", `spec: {ports: [{port: 80, protocol: UDP, name: quic}], tags: [z], labels: {other: "2"}}`)
	want := map[string]any{"spec": map[string]any{
		"size":  int64(1),
		"ports": []any{map[string]any{"port": int64(80), "protocol": "TCP", "name": "web"}, map[string]any{"port": int64(80), "protocol": "UDP", "name": "quic"}},
		"tags":  []any{"x", "z"}, "order": []any{"a"}, "whole": map[string]any{"a": "b"}, "labels": map[string]any{"one": "1", "other": "2"},
	}}
	if diff := cmp.Diff(want, content(merged)); diff != "" {
		t.Errorf("what both want (-want,+got):\n%s", diff)
	}
	for name, conflicting := range map[string]string{
		".spec.size": `spec: {size: 2}`, ".spec.order": `spec: {order: [b]}`, ".spec.whole": `spec: {whole: {c: d}}`,
		`.spec.ports[port=80,protocol="TCP"].name`: `spec: {ports: [{port: 80, protocol: TCP, name: other}]}`,
	} {
		if _, err := o.apply(t, "third", "a", conflicting, false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want a conflict with who has it", name, err)
		}
	}
	taken, err := o.apply(t, "third", "a", `spec: {size: 2}`, true)
	if err != nil {
		t.Fatal(err)
	}
	if size, _, _ := unstructured.NestedInt64(taken.Object, "spec", "size"); size != 2 {
		t.Errorf("by force: size is %d, want 2", size)
	}
	// The first one lets go of what it does not say anymore, and keeps what others have.
	left := o.mustApply(t, "one", "a", `spec: {tags: [x]}`)
	want = map[string]any{"spec": map[string]any{
		"size": int64(2), "ports": []any{map[string]any{"port": int64(80), "protocol": "UDP", "name": "quic"}}, "tags": []any{"x", "z"}, "labels": map[string]any{"other": "2"},
	}}
	if diff := cmp.Diff(want, content(left)); diff != "" {
		t.Errorf("what is left (-want,+got):\n%s", diff)
	}
	again := o.mustApply(t, "one", "a", `spec: {tags: [x]}`)
	if again.GetResourceVersion() != left.GetResourceVersion() {
		t.Error("applying the same again has written the object")
	}
	if _, err := o.apply(t, "one", "a", `spec: {ports: [{port: 80, protocol: TCP}, {port: 80, protocol: TCP}]}`, false); err == nil {
		t.Error("the same port twice was applied")
	}
}

// testApplyAcrossVersions has managers that use different versions of a kind, the fields of which have other names.
func testApplyAcrossVersions(t *testing.T, w *world) {
	definition := parse(t, "Owned", "names: {plural: owned}\n"+twoVersions)
	definition.Spec.Conversion = w.webhook.by("/good")
	v1 := w.create(t, definition)
	v2 := w.objects("owned", "Owned", "v2")
	v1.mustApply(t, "one", "a", "spec: {size: 1}")
	if _, err := v2.apply(t, "other", "a", "spec: {dimensions: {size: 2}}", false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one"`) {
		t.Errorf("what another one has in another version: got %v, want a conflict", err)
	}
	taken, err := v2.apply(t, "other", "a", "spec: {dimensions: {size: 2}}", true)
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, entry := range taken.GetManagedFields() {
		fields, err := json.Marshal(entry.FieldsV1)
		if err != nil {
			t.Fatal(err)
		}
		owners[entry.Manager] = entry.APIVersion + " " + string(fields)
	}
	if diff := cmp.Diff(map[string]string{"other": group + `/v2 {"f:spec":{"f:dimensions":{"f:size":{}}}}`}, owners); diff != "" {
		t.Errorf("owners (-want,+got):\n%s", diff)
	}
	if _, err := v1.apply(t, "one", "a", "spec: {size: 3}", false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "other"`) || !strings.Contains(err.Error(), "size") {
		t.Errorf("what it had before: got %v, want a conflict", err)
	}
}
