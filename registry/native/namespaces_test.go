// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/registry/native/core"
)

type namespaceClient struct {
	typedcorev1.NamespaceInterface
	rest      rest.Interface
	discovery discovery.DiscoveryInterface
}

func startNamespaces(t *testing.T) namespaceClient {
	t.Helper()
	client, err := kubernetes.NewForConfig(start(t, core.GroupVersion, core.Kinds(core.Tokens{})).Config)
	if err != nil {
		t.Fatal(err)
	}
	return namespaceClient{client.CoreV1().Namespaces(), client.CoreV1().RESTClient(), client.Discovery()}
}

func (c namespaceClient) fresh(t *testing.T, name string, finalizers ...string) *corev1.Namespace {
	t.Helper()
	ns, err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func TestVerbsOfNamespaces(t *testing.T) {
	t.Parallel()
	list, err := startNamespaces(t).discovery.ServerResourcesForGroupVersion("v1")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, resource := range list.APIResources {
		if resource.Kind == "Namespace" {
			got[resource.Name] = slices.Sorted(slices.Values(resource.Verbs))
		}
	}
	if diff := cmp.Diff(map[string][]string{
		"namespaces":          {"create", "delete", "get", "list", "patch", "update", "watch"},
		"namespaces/finalize": {"update"},
		"namespaces/status":   {"get", "patch", "update"},
	}, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}

func TestANamespaceIsKeptUntilItsFinalizersAreGone(t *testing.T) {
	t.Parallel()
	namespaces := startNamespaces(t)
	created := namespaces.fresh(t, "kept", "example.com/hold")

	deleted, err := namespaces.remove(t, "kept", metav1.DeleteOptions{})
	if err != nil || deleted.DeletionTimestamp == nil || deleted.Status.Phase != corev1.NamespaceTerminating || deleted.Generation != 0 {
		t.Fatalf("deleted: %v, %v", deleted, err)
	}
	again, err := namespaces.remove(t, "kept", metav1.DeleteOptions{})
	if err != nil || again.ResourceVersion != deleted.ResourceVersion {
		t.Errorf("deleting it once more: %v, %v", again, err)
	}
	// Neither kind of finalizers gives it free alone.
	freed, err := namespaces.Patch(t.Context(), "kept", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil || len(freed.Finalizers) > 0 || len(freed.Spec.Finalizers) != 1 {
		t.Fatalf("without its own finalizers: %v, %v", freed, err)
	}
	freed.Spec.Finalizers = []corev1.FinalizerName{"no-domain"}
	if _, err := namespaces.Finalize(t.Context(), freed, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid finalizer: got %v, want 422", err)
	}
	freed.Spec.Finalizers = []corev1.FinalizerName{"kubernetes", "example.com/other"}
	freed.Status = corev1.NamespaceStatus{}
	freed.Labels["through"] = "finalize"
	finalized, err := namespaces.Finalize(t.Context(), freed, metav1.UpdateOptions{})
	if err != nil || len(finalized.Spec.Finalizers) != 2 || finalized.Status.Phase != corev1.NamespaceTerminating || finalized.Labels["through"] != "finalize" {
		t.Fatalf("with another finalizer: %v, %v", finalized, err)
	}
	if _, err := namespaces.Finalize(t.Context(), freed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("finalizing an old version: got %v, want 409", err)
	}
	finalized.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(t.Context(), finalized, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	if kept, err := namespaces.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil || kept.UID != created.UID {
		t.Fatalf("after dry runs: %v, %v", kept, err)
	}
	if _, err := namespaces.Finalize(t.Context(), finalized, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "kept", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without finalizers: got %v, want 404", err)
	}
	if recreated := namespaces.fresh(t, "kept"); recreated.UID == created.UID {
		t.Error("the namespace of the same name is the old one")
	}
}

func TestANamespaceWithFinalizersOfItsOwnGoesWithTheLastOfThem(t *testing.T) {
	t.Parallel()
	namespaces := startNamespaces(t)
	namespaces.fresh(t, "owned", "example.com/hold")
	deleted, err := namespaces.remove(t, "owned", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleted.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(t.Context(), deleted, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if held, err := namespaces.remove(t, "owned", metav1.DeleteOptions{}); err != nil || len(held.Finalizers) != 1 {
		t.Errorf("deleting it once more: %v, %v", held, err)
	}
	if _, err := namespaces.Patch(t.Context(), "owned", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "owned", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without finalizers: got %v, want 404", err)
	}
}

func TestOptionsOfDeletingANamespace(t *testing.T) {
	t.Parallel()
	namespaces := startNamespaces(t)
	for name, tc := range map[string]struct {
		options  metav1.DeleteOptions
		refused  bool
		unmarked bool
		want     []string
	}{
		"none":             {want: []string{"orphan"}},
		"background":       {options: metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}},
		"foreground":       {options: metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}, want: []string{"foregroundDeletion"}},
		"orphan":           {options: metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationOrphan)}, want: []string{"orphan"}},
		"orphans":          {options: metav1.DeleteOptions{OrphanDependents: ptr.To(true)}, want: []string{"orphan"}},              //nolint:staticcheck // clients may still use it
		"no orphans":       {options: metav1.DeleteOptions{OrphanDependents: ptr.To(false)}, want: []string{"foregroundDeletion"}}, //nolint:staticcheck // clients may still use it
		"of another uid":   {options: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}, refused: true, want: []string{"orphan"}},
		"of another state": {options: metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}}, refused: true, want: []string{"orphan"}},
		"dry run":          {options: metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, unmarked: true, want: []string{"orphan"}},
	} {
		t.Run(name, func(t *testing.T) {
			ns := namespaces.fresh(t, "options", "orphan")
			answer, err := namespaces.remove(t, ns.Name, tc.options)
			if refused := apierrors.IsConflict(err); refused != tc.refused || err != nil && !refused {
				t.Errorf("got %v, want a conflict: %t", err, tc.refused)
			}
			if err == nil && answer.Status.Phase != corev1.NamespaceTerminating {
				t.Errorf("the answer is %v", answer)
			}
			stored, err := namespaces.Get(t.Context(), ns.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if marked := stored.DeletionTimestamp != nil; marked == (tc.refused || tc.unmarked) {
				t.Errorf("marked: %t", marked)
			}
			if diff := cmp.Diff(tc.want, stored.Finalizers); diff != "" {
				t.Errorf("finalizers (-want,+got):\n%s", diff)
			}
			if _, err := namespaces.remove(t, ns.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if stored, err = namespaces.Patch(t.Context(), ns.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			stored.Spec.Finalizers = nil
			if _, err := namespaces.Finalize(t.Context(), stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestStatusOfANamespaceFollowsItsDeletion(t *testing.T) {
	t.Parallel()
	namespaces := startNamespaces(t)
	ns := namespaces.fresh(t, "phase")
	ns.Status.Phase = corev1.NamespaceTerminating
	if _, err := namespaces.UpdateStatus(t.Context(), ns, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("Terminating, but not deleted: got %v, want 422", err)
	}
	patched, err := namespaces.Patch(t.Context(), "phase", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"by":"status"}},"status":{"conditions":[{"type":"A","status":"True"}]}}`), metav1.PatchOptions{}, "status")
	if err != nil || len(patched.Status.Conditions) != 1 || patched.Annotations["by"] != "status" {
		t.Errorf("patching the status: %v, %v", patched, err)
	}
	deleted, err := namespaces.remove(t, "phase", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	deleted.Status.Phase = corev1.NamespaceActive
	if _, err := namespaces.UpdateStatus(t.Context(), deleted, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("Active, but deleted: got %v, want 422", err)
	}
}

// remove returns what the deletion answered with, which the typed client throws away.
func (c namespaceClient) remove(t *testing.T, name string, options metav1.DeleteOptions) (*corev1.Namespace, error) {
	t.Helper()
	out := &corev1.Namespace{}
	return out, c.rest.Delete().Resource("namespaces").Name(name).Body(&options).Do(t.Context()).Into(out)
}
