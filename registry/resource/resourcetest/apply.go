// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcetest

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func (k *kind) checkApply(t *testing.T) {
	options := metav1.ApplyOptions{FieldManager: "resourcetest"}
	applied, err := k.client().Apply(t.Context(), k.Names[0], k.object(0), options)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.client().Apply(t.Context(), k.Names[0], k.object(0), options)
	if err != nil {
		t.Fatal(err)
	}
	if again.GetResourceVersion() != applied.GetResourceVersion() {
		t.Errorf("applying the same twice moved resourceVersion from %s to %s", applied.GetResourceVersion(), again.GetResourceVersion())
	}
	other := k.object(0)
	other.SetLabels(map[string]string{"resourcetest": "taken"})
	if _, err = k.client().Apply(t.Context(), k.Names[0], other, metav1.ApplyOptions{FieldManager: "somebody-else"}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "resourcetest") {
		t.Errorf("taking a field that another manager owns: got %v, want a conflict naming it", err)
	}
	if k.Status == nil {
		return
	}
	withStatus := k.object(0)
	withStatus.Object["status"] = deepCopy(k.Status)
	out, err := k.client().Apply(t.Context(), k.Names[0], withStatus, options)
	if err != nil {
		t.Fatal(err)
	}
	if owned := ownedBy(out, "resourcetest", ""); strings.Contains(owned, `"f:status"`) {
		t.Errorf("the main endpoint gave ownership of status: %s", owned)
	}
}

func (k *kind) checkStatus(t *testing.T) {
	if k.Status == nil {
		if _, err := k.client().Get(t.Context(), k.Names[0], metav1.GetOptions{}, "status"); !apierrors.IsNotFound(err) {
			t.Errorf("/status of a kind without status: got %v, want NotFound", err)
		}
		return
	}
	absent := k.object(1)
	absent.Object["status"] = deepCopy(k.Status)
	if _, err := k.client().ApplyStatus(t.Context(), k.Names[1], absent, metav1.ApplyOptions{FieldManager: "resourcetest", Force: true}); !apierrors.IsNotFound(err) {
		t.Errorf("creating through /status: got %v, want NotFound", err)
	}

	created := k.create(t, 0)
	update := created.DeepCopy()
	update.Object["status"] = deepCopy(k.Status)
	maps.Copy(update.Object, k.desired(k.ChangedSpec))
	update.SetLabels(map[string]string{"resourcetest": "through-status"})
	update.SetFinalizers([]string{"annex.test/through-status"})
	out, err := k.client().UpdateStatus(t.Context(), update, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if k.MetadataWithStatus {
		if out.GetLabels()["resourcetest"] != "through-status" || len(out.GetFinalizers()) != 1 {
			t.Errorf("/status did not write metadata: %v", out.Object["metadata"])
		}
		created.SetLabels(out.GetLabels())
		created.SetFinalizers(out.GetFinalizers())
	}
	k.wantOnlyStatusChanged(t, created, out)

	main := out.DeepCopy()
	unstructured.RemoveNestedField(main.Object, "status")
	kept, err := k.client().Update(t.Context(), main, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out.Object["status"], kept.Object["status"]); diff != "" {
		t.Errorf("the main endpoint changed status (-want,+got):\n%s", diff)
	}

	patched, err := k.client().Patch(t.Context(), k.Names[0], types.MergePatchType, encode(t, map[string]any{"spec": k.ChangedSpec, "metadata": map[string]any{"labels": map[string]any{"by": "patch"}}}), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	if k.MetadataWithStatus {
		created.SetLabels(map[string]string{"resourcetest": "through-status", "by": "patch"})
	}
	k.wantOnlyStatusChanged(t, created, patched)

	apply := k.object(0)
	apply.Object["status"] = deepCopy(k.Status)
	applied, err := k.client().ApplyStatus(t.Context(), k.Names[0], apply, metav1.ApplyOptions{FieldManager: "status-applier", Force: true})
	if err != nil {
		t.Fatal(err)
	}
	owned := ownedBy(applied, "status-applier", "status")
	if !strings.Contains(owned, `"f:status"`) || strings.Contains(owned, `"f:spec"`) || strings.Contains(owned, `"f:metadata"`) != k.MetadataWithStatus {
		t.Errorf("applying to /status should own status, and metadata where it writes that; owns %s", owned)
	}
}

// wantOnlyStatusChanged compares everything but status and what each write moves.
func (k *kind) wantOnlyStatusChanged(t *testing.T, before, after *unstructured.Unstructured) {
	t.Helper()
	status, _, _ := unstructured.NestedMap(after.Object, "status")
	if len(status) == 0 {
		t.Errorf("/status stored nothing")
	}
	strip := func(u *unstructured.Unstructured) map[string]any {
		c := u.DeepCopy()
		unstructured.RemoveNestedField(c.Object, "status")
		unstructured.RemoveNestedField(c.Object, "metadata", "resourceVersion")
		unstructured.RemoveNestedField(c.Object, "metadata", "managedFields")
		return c.Object
	}
	if diff := cmp.Diff(strip(before), strip(after)); diff != "" {
		t.Errorf("/status changed more than status (-want,+got):\n%s", diff)
	}
}

// ownedBy returns the fields a manager owns through an endpoint, as JSON.
func ownedBy(u *unstructured.Unstructured, manager, subresource string) string {
	for _, entry := range u.GetManagedFields() {
		if entry.Manager == manager && entry.Subresource == subresource && entry.FieldsV1 != nil {
			return entry.FieldsV1.GetRawString()
		}
	}
	return ""
}
