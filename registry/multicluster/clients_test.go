// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package multicluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/registry/resource/resourcetest"
)

// clients works on the claims of one server and remembers the warnings it was given.
type clients struct {
	dynamic  dynamic.Interface
	rest     rest.Interface
	mu       sync.Mutex
	warnings []string
}

func claimsOn(t *testing.T, server *resourcetest.Server) *clients {
	t.Helper()
	c := &clients{}
	config := rest.CopyConfig(server.Config)
	config.WarningHandler = c
	var err error
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	config.GroupVersion, config.APIPath = &v1alpha1.SchemeGroupVersion, "/apis"
	config.NegotiatedSerializer = clientscheme.Codecs.WithoutConversion()
	if c.rest, err = rest.RESTClientFor(config); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := c.resource("clusterclaims").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return err == nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// HandleWarningHeader implements rest.WarningHandler.
func (c *clients) HandleWarningHeader(_ int, _, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, text)
}

func (c *clients) takeWarnings() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.warnings = nil }()
	return c.warnings
}

func (c *clients) resource(plural string) dynamic.ResourceInterface {
	return c.dynamic.Resource(v1alpha1.SchemeGroupVersion.WithResource(plural))
}

func (c *clients) object(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func (c *clients) claim(name, value string) *unstructured.Unstructured {
	return c.object("ClusterClaim", name, map[string]any{"value": value})
}

func (c *clients) create(t *testing.T, plural string, obj *unstructured.Unstructured) error {
	_, err := c.resource(plural).Create(t.Context(), obj, metav1.CreateOptions{})
	return err
}

func (c *clients) mustCreate(t *testing.T, plural string, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out, err := c.resource(plural).Create(t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating %s: %v", obj.GetName(), err)
	}
	return out
}

func (c *clients) update(t *testing.T, plural string, obj *unstructured.Unstructured) error {
	_, err := c.resource(plural).Update(t.Context(), obj, metav1.UpdateOptions{})
	return err
}

func (c *clients) get(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	out, err := c.resource("clusterclaims").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *clients) delete(t *testing.T, name string) error {
	return c.resource("clusterclaims").Delete(t.Context(), name, metav1.DeleteOptions{})
}

// release takes the finalizers off a claim that waits for them.
func (c *clients) release(t *testing.T, name string) {
	t.Helper()
	_, err := c.resource("clusterclaims").Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("releasing %s: %v", name, err)
	}
}

// column returns one column of kubectl's table by object name.
func (c *clients) column(t *testing.T, plural, header string) map[string]any {
	t.Helper()
	table := &metav1.Table{}
	err := c.rest.Get().Resource(plural).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table)
	if err != nil {
		t.Fatal(err)
	}
	for i, definition := range table.ColumnDefinitions {
		if definition.Name == header {
			out := map[string]any{}
			for _, row := range table.Rows {
				out[fmt.Sprint(row.Cells[0])] = row.Cells[i]
			}
			return out
		}
	}
	t.Fatalf("no column %s among %v", header, table.ColumnDefinitions)
	return nil
}

func nested(u *unstructured.Unstructured, path ...string) string {
	out, _, _ := unstructured.NestedString(u.Object, path...)
	return out
}

func isInvalid(err error) bool { return apierrors.IsInvalid(err) }
