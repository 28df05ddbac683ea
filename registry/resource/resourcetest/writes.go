// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcetest

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func (k *kind) checkCreate(t *testing.T) {
	obj := k.object(0)
	if k.Status != nil {
		obj.Object["status"] = deepCopy(k.Status)
	}
	created, err := k.client().Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.GetUID() == "" || created.GetCreationTimestamp() == (metav1.Time{}) || created.GetResourceVersion() == "" {
		t.Errorf("created without uid, creation time or resourceVersion: %v", created.Object["metadata"])
	}
	if k.Status != nil {
		if want := k.generations(1); created.GetGeneration() != want {
			t.Errorf("generation after create: got %d, want %d", created.GetGeneration(), want)
		}
		if status, _, _ := unstructured.NestedMap(created.Object, "status"); len(status) > 0 && cmp.Equal(status, k.Status) {
			t.Errorf("a status given on create was kept: %v", status)
		}
	}
	if diff := cmp.Diff(created.Object, k.get(t, 0).Object); diff != "" {
		t.Errorf("what was created differs from what is stored (-created,+stored):\n%s", diff)
	}
	if _, err := k.client().Create(t.Context(), k.object(0), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating it again: got %v, want AlreadyExists", err)
	}
	unknown := k.object(1)
	unknown.Object["nonsense"] = "x"
	if _, err := k.client().Create(t.Context(), unknown, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("an unknown field under strict validation: got %v, want BadRequest naming it", err)
	}
}

func (k *kind) checkInvalid(t *testing.T) {
	if k.InvalidSpec == nil {
		return
	}
	k.create(t, 1)
	bad := k.object(0)
	maps.Copy(bad.Object, k.desired(k.InvalidSpec))
	_, err := k.client().Create(t.Context(), bad, metav1.CreateOptions{})
	k.wantInvalid(t, "create", err)
	_, err = k.client().Apply(t.Context(), bad.GetName(), bad, metav1.ApplyOptions{FieldManager: "resourcetest", Force: true})
	k.wantInvalid(t, "apply", err)
	current := k.get(t, 1)
	maps.Copy(current.Object, k.desired(k.InvalidSpec))
	_, err = k.client().Update(t.Context(), current, metav1.UpdateOptions{})
	k.wantInvalid(t, "update", err)
	var patch []map[string]any
	for name, value := range k.desired(k.InvalidSpec) {
		patch = append(patch, map[string]any{"op": "add", "path": "/" + name, "value": value})
	}
	_, err = k.client().Patch(t.Context(), k.Names[1], types.JSONPatchType, encode(t, patch), metav1.PatchOptions{})
	k.wantInvalid(t, "JSON patch", err)
}

func (k *kind) wantInvalid(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), k.InvalidMessage) {
		t.Errorf("%s: got %v, want 422 with %q", what, err, k.InvalidMessage)
	}
}

func (k *kind) checkDryRun(t *testing.T) {
	if _, err := k.client().Create(t.Context(), k.object(0), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.client().Get(t.Context(), k.Names[0], metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry-run create: got %v, want NotFound", err)
	}
	before := k.create(t, 0)
	changed := before.DeepCopy()
	changed.SetAnnotations(map[string]string{"resourcetest": "dry"})
	if _, err := k.client().Update(t.Context(), changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if err := k.client().Delete(t.Context(), k.Names[0], metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Object, k.get(t, 0).Object); diff != "" {
		t.Errorf("dry runs changed what is stored (-want,+got):\n%s", diff)
	}
}

func (k *kind) checkUpdate(t *testing.T) {
	created := k.create(t, 0)
	labelled := created.DeepCopy()
	labelled.SetLabels(map[string]string{"resourcetest": "labelled"})
	updated, err := k.client().Update(t.Context(), labelled, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if updated.GetGeneration() != created.GetGeneration() {
		t.Errorf("a label moved generation from %d to %d", created.GetGeneration(), updated.GetGeneration())
	}
	same, err := k.client().Update(t.Context(), updated, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if same.GetResourceVersion() != updated.GetResourceVersion() {
		t.Errorf("an update without a change moved resourceVersion from %s to %s", updated.GetResourceVersion(), same.GetResourceVersion())
	}
	if k.ChangedSpec == nil {
		return
	}
	maps.Copy(same.Object, k.desired(k.ChangedSpec))
	changed, err := k.client().Update(t.Context(), same, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := k.generations(2); k.Status != nil && changed.GetGeneration() != want {
		t.Errorf("generation after a change of spec: got %d, want %d", changed.GetGeneration(), want)
	}
}

// generations returns how many an object has that had so many.
func (k *kind) generations(counted int64) int64 {
	if k.NoGenerations {
		return 0
	}
	return counted
}

func (k *kind) checkConflict(t *testing.T) {
	stale := k.create(t, 0)
	newer := stale.DeepCopy()
	newer.SetLabels(map[string]string{"resourcetest": "newer"})
	if _, err := k.client().Update(t.Context(), newer, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	stale.SetLabels(map[string]string{"resourcetest": "stale"})
	if _, err := k.client().Update(t.Context(), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("updating an old version: got %v, want Conflict", err)
	}
	old := stale.GetResourceVersion()
	if err := k.client().Delete(t.Context(), k.Names[0], metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}}); !apierrors.IsConflict(err) {
		t.Errorf("deleting an old version: got %v, want Conflict", err)
	}
	if k.CreateOnUpdate {
		return
	}
	absent := k.object(1)
	absent.SetResourceVersion("1")
	if _, err := k.client().Update(t.Context(), absent, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		t.Errorf("updating what does not exist: got %v, want NotFound or Conflict", err)
	}
}

func (k *kind) checkPatches(t *testing.T) {
	k.create(t, 0)
	for _, tc := range []struct {
		name string
		typ  types.PatchType
		body string
	}{
		{"merge", types.MergePatchType, `{"metadata":{"annotations":{"by":"merge"}}}`},
		{"JSON", types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations","value":{"by":"JSON"}}]`},
		{"strategic merge", types.StrategicMergePatchType, `{"metadata":{"annotations":{"by":"strategic merge"}}}`},
	} {
		out, err := k.client().Patch(t.Context(), k.Names[0], tc.typ, []byte(tc.body), metav1.PatchOptions{})
		if err != nil {
			t.Errorf("%s patch: %v", tc.name, err)
			continue
		}
		if got := out.GetAnnotations()["by"]; got != tc.name {
			t.Errorf("%s patch: annotation is %q", tc.name, got)
		}
		again, err := k.client().Patch(t.Context(), k.Names[0], tc.typ, []byte(tc.body), metav1.PatchOptions{})
		if err != nil {
			t.Errorf("%s patch again: %v", tc.name, err)
		} else if again.GetResourceVersion() != out.GetResourceVersion() {
			t.Errorf("%s patch that changes nothing moved resourceVersion", tc.name)
		}
	}
}

func (k *kind) checkDelete(t *testing.T) {
	obj := k.object(0)
	obj.SetFinalizers([]string{"annex.test/hold"})
	created, err := k.client().Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wrong := types.UID("00000000-0000-0000-0000-000000000000")
	if err := k.client().Delete(t.Context(), k.Names[0], metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !apierrors.IsConflict(err) {
		t.Errorf("deleting with another uid: got %v, want Conflict", err)
	}
	if err := k.client().Delete(t.Context(), k.Names[0], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	held := k.get(t, 0)
	if held.GetDeletionTimestamp() == nil || held.GetUID() != created.GetUID() {
		t.Errorf("with a finalizer left: deletionTimestamp %v, uid %v", held.GetDeletionTimestamp(), held.GetUID())
	}
	held.SetFinalizers(nil)
	if _, err := k.client().Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.client().Get(t.Context(), k.Names[0], metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the last finalizer went: got %v, want NotFound", err)
	}
	if err := k.client().Delete(t.Context(), k.Names[0], metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("deleting what is gone: got %v, want NotFound", err)
	}
}

func (k *kind) checkDeleteCollection(t *testing.T) {
	for i := range k.Names {
		k.create(t, i)
	}
	selector := metav1.ListOptions{LabelSelector: "resourcetest!=" + k.Names[0]}
	if err := k.client().DeleteCollection(t.Context(), metav1.DeleteOptions{}, selector); err != nil {
		t.Fatal(err)
	}
	list, err := k.client().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].GetName() != k.Names[0] {
		t.Errorf("left after deletecollection: %v, want %s", namesOf(list), k.Names[0])
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func namesOf(list *unstructured.UnstructuredList) []string {
	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].GetName())
	}
	return out
}

func deepCopy(m map[string]any) map[string]any {
	return (&unstructured.Unstructured{Object: m}).DeepCopy().Object
}
