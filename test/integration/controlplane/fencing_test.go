// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/fencing"
)

// TestLateWritesOfEveryServerOfTheChain has kinds of all three servers written under a term: native ones, custom resources and
// their definitions, and APIServices.
func TestLateWritesOfEveryServerOfTheChain(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	createWidgetDefinition(t, h.Admin())
	eventually(t, func() error {
		_, err := anything(t, h.Admin()).Resource(widgets).Namespace("default").List(t.Context(), metav1.ListOptions{})
		return err
	})
	leases := core(t, h.Admin()).CoordinationV1().Leases("default")
	one, two := "one", "two"
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &one},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	late := fencing.Current(lease)
	if err := leases.Delete(t.Context(), "leader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if lease, err = leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &two},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	current := fencing.Current(lease)
	fence := func(term fencing.Term) *rest.Config {
		config := h.Admin()
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return withTerm{next, term} })
		return config
	}

	before := refusedWrites(t, h)
	for name, tc := range map[string]struct {
		resource  schema.GroupVersionResource
		namespace string
		object    map[string]any
	}{
		"ConfigMap": {schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "default", map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "b"},
		}},
		"custom resource": {widgets, "default", map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"size": int64(1)},
		}},
		"CustomResourceDefinition": {schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "", map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things.fenced.example.com"},
			"spec": map[string]any{
				"group": "fenced.example.com", "scope": "Cluster", "names": map[string]any{"plural": "things", "kind": "Thing"},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}},
			},
		}},
		"APIService": {schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}, "", map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.fenced.example.net"},
			"spec": map[string]any{
				"group": "fenced.example.net", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(10),
				"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": "default", "name": "none"},
			},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: tc.object}
			if object.GetName() == "" {
				object.SetName("fenced")
				object.SetNamespace(tc.namespace)
			}
			for what, write := range map[string]func(config *rest.Config) error{
				"create": func(config *rest.Config) error {
					_, err := anything(t, config).Resource(tc.resource).Namespace(tc.namespace).Create(t.Context(), object, metav1.CreateOptions{})
					return err
				},
				"apply": func(config *rest.Config) error {
					_, err := anything(t, config).Resource(tc.resource).Namespace(tc.namespace).Apply(t.Context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: "late", Force: true})
					return err
				},
			} {
				if err := write(fence(late)); !fencing.IsTermOver(err) || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "the Lease was deleted and made anew since") {
					t.Errorf("late %s: got %v, want 403 for a term that is over", what, err)
				}
			}
			leader := anything(t, fence(current)).Resource(tc.resource).Namespace(tc.namespace)
			if _, err := leader.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatalf("create by the leader: %v", err)
			}
			lateWriter := anything(t, fence(late)).Resource(tc.resource).Namespace(tc.namespace)
			label := []byte(`{"metadata":{"labels":{"late":"true"}}}`)
			for what, write := range map[string]func() error{
				"patch": func() error {
					_, err := lateWriter.Patch(t.Context(), object.GetName(), types.MergePatchType, label, metav1.PatchOptions{})
					return err
				},
				"delete": func() error { return lateWriter.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}) },
				"deletecollection": func() error {
					return lateWriter.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + object.GetName()})
				},
			} {
				if err := write(); !fencing.IsTermOver(err) {
					t.Errorf("late %s: got %v, want 403 for a term that is over", what, err)
				}
			}
			if err := leader.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete by the leader: %v", err)
			}
		})
	}
	if refused := refusedWrites(t, h) - before; refused < 20 {
		t.Errorf("%v late writes were counted, want 20", refused)
	}
}

type withTerm struct {
	next http.RoundTripper
	term fencing.Term
}

func (w withTerm) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Annex-Term", w.term.String())
	return w.next.RoundTrip(request)
}

// refusedWrites is counted for the process, so other tests of the package may count too.
func refusedWrites(t *testing.T, h *host) int {
	t.Helper()
	_, body := send(t, h.Admin(), http.MethodGet, h.URL+"/metrics", "", nil)
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "annex_fencing_late_writes_refused_total "); ok {
			count, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return count
		}
	}
	t.Fatal("late writes are not counted")
	return 0
}
