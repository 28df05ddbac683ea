// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package customresources

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// testFieldSelectors lists, watches and deletes by fields that the definition names.
func testFieldSelectors(t *testing.T, w *world) {
	o := w.define(t, "Selected", "names: {plural: selected}\n"+oneVersion("spec: {type: object, properties: {color: {type: string}, size: {type: integer}, hidden: {type: string}}}")+
		"\n  selectableFields: [{jsonPath: .spec.color}, {jsonPath: .spec.size}]")
	watch, err := o.Watch(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=red"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	o.create(t, "a", "spec: {color: red, size: 1}")
	o.create(t, "b", "spec: {color: blue, size: 1}")
	o.create(t, "c", "spec: {color: red, size: 2}")
	for selector, want := range map[string][]string{
		"":                             {"a", "b", "c"},
		"spec.color=red":               {"a", "c"},
		"spec.color!=red":              {"b"},
		"spec.size=1":                  {"a", "b"},
		"spec.color=red,spec.size=2":   {"c"},
		"spec.color=green":             nil,
		"metadata.name=a":              {"a"},
		"metadata.name=a,spec.size!=1": nil,
	} {
		list, err := o.List(t.Context(), metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			t.Errorf("%s: %v", selector, err)
			continue
		}
		var got []string
		for i := range list.Items {
			got = append(got, list.Items[i].GetName())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", selector, diff)
		}
	}
	for _, selector := range []string{"spec.hidden=x", "spec.nothing=x"} {
		if _, err := o.List(t.Context(), metav1.ListOptions{FieldSelector: selector}); !apierrors.IsBadRequest(err) {
			t.Errorf("listing by %s: got %v, want 400", selector, err)
		}
		if _, err := o.Watch(t.Context(), metav1.ListOptions{FieldSelector: selector}); !apierrors.IsBadRequest(err) {
			t.Errorf("watching by %s: got %v, want 400", selector, err)
		}
	}

	// What stops being selected is gone for who watches.
	if _, err := o.merge(t.Context(), "a", `{"spec":{"color":"blue"}}`); err != nil {
		t.Fatal(err)
	}
	var events []string
	for len(events) < 3 {
		select {
		case event := <-watch.ResultChan():
			events = append(events, string(event.Type)+" "+event.Object.(*unstructured.Unstructured).GetName())
		case <-time.After(patience):
			t.Fatalf("watched %v", events)
		}
	}
	if diff := cmp.Diff([]string{"ADDED a", "ADDED c", "DELETED a"}, events); diff != "" {
		t.Errorf("watched (-want,+got):\n%s", diff)
	}
	if err := o.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "spec.color=blue"}); err != nil {
		t.Fatal(err)
	}
	if list, err := o.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "c" {
		t.Errorf("after deleting what is blue: %v %v", list, err)
	}
	w.kubectl.Want(t, `^selected.test.example.com/c$`, "get", "selected", "--field-selector=spec.size=2", "-o", "name")
}
