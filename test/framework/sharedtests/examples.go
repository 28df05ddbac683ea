// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package sharedtests

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/kube-annex/annex/test/framework"
)

// Examples takes each object of artifacts/examples through everything but deletion, and returns them as they are then stored.
func Examples(t *testing.T, root string, config *rest.Config) []*unstructured.Unstructured {
	t.Helper()
	kinds := discover(t, config)
	var created []*unstructured.Unstructured
	covered := map[string]bool{}
	for _, example := range framework.Examples(t, root) {
		kind := kinds.of(t, example)
		covered[kind.mapping.Resource.GroupResource().String()] = true
		name := fmt.Sprintf("%s/%s", example.GetKind(), example.GetName())
		if !t.Run(name, func(t *testing.T) { created = append(created, kind.exercise(t, example)) }) {
			t.FailNow()
		}
	}
	for _, want := range []string{"features.features.k8s.io", "clusterclaims.multicluster.k8s.io", "clusteridreservations.multicluster.k8s.io", "nodeballoons.node.k8s.io"} {
		if !covered[want] {
			t.Errorf("no example of %s", want)
		}
	}
	return created
}

// Stored checks that the objects are stored exactly so.
func Stored(t *testing.T, config *rest.Config, objects []*unstructured.Unstructured) {
	t.Helper()
	kinds := discover(t, config)
	for _, want := range objects {
		got, err := kinds.of(t, want).client(want).Get(t.Context(), want.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(want.Object, got.Object); diff != "" {
			t.Errorf("%s (-want,+got):\n%s", want.GetName(), diff)
		}
	}
}

// Delete deletes the objects that Examples returned.
func Delete(t *testing.T, config *rest.Config, objects []*unstructured.Unstructured) {
	t.Helper()
	kinds := discover(t, config)
	// A member's id goes last.
	ordered := slices.Clone(objects)
	slices.Reverse(ordered)
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int { return isID(a) - isID(b) })
	for _, obj := range ordered {
		deleteObject(t, kinds.of(t, obj).client(obj), obj.GetName())
	}
}

func isID(obj *unstructured.Unstructured) int {
	if obj.GetName() == "id.k8s.io" {
		return 1
	}
	return 0
}

// CreateOnlyExamples sends the objects that are answered and never stored.
func CreateOnlyExamples(t *testing.T, root string, config *rest.Config) {
	t.Helper()
	kinds := discover(t, config)
	for _, example := range framework.CreateOnlyExamples(t, root) {
		kind := kinds.of(t, example)
		out, err := kind.client(example).Create(t.Context(), example, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", example.GetKind(), err)
		}
		if answers, _, _ := unstructured.NestedSlice(out.Object, "status", "features"); len(answers) != 1 {
			t.Errorf("%s was answered with %v", example.GetKind(), out.Object["status"])
		}
		if diff := cmp.Diff([]string{"create"}, []string(kind.resource.Verbs)); diff != "" {
			t.Errorf("verbs of %s (-want,+got):\n%s", kind.resource.Name, diff)
		}
	}
}

// kinds is what discovery says.
type kinds struct {
	config    *rest.Config
	discovery *discovery.DiscoveryClient
	dynamic   *dynamic.DynamicClient
	mapper    meta.RESTMapper
}

func discover(t *testing.T, config *rest.Config) *kinds {
	t.Helper()
	k := &kinds{config: config}
	var err error
	if k.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
		t.Fatal(err)
	}
	if k.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	groups, err := restmapper.GetAPIGroupResources(k.discovery)
	if err != nil {
		t.Fatal(err)
	}
	k.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	return k
}

// kindUnderTest is what discovery says of an example's kind.
type kindUnderTest struct {
	*kinds
	mapping  *meta.RESTMapping
	resource metav1.APIResource
	status   bool
}

func (k *kinds) of(t *testing.T, obj *unstructured.Unstructured) kindUnderTest {
	t.Helper()
	gvk := obj.GroupVersionKind()
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	list, err := k.discovery.ServerResourcesForGroupVersion(gvk.GroupVersion().String())
	if err != nil {
		t.Fatal(err)
	}
	out := kindUnderTest{kinds: k, mapping: mapping}
	for _, r := range list.APIResources {
		switch r.Name {
		case mapping.Resource.Resource:
			out.resource = r
		case mapping.Resource.Resource + "/status":
			out.status = true
		}
	}
	return out
}

func (k kindUnderTest) client(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	if k.resource.Namespaced {
		return k.dynamic.Resource(k.mapping.Resource).Namespace(obj.GetNamespace())
	}
	return k.dynamic.Resource(k.mapping.Resource)
}

// exercise takes an example through everything but deletion and returns it as it is then stored.
func (k kindUnderTest) exercise(t *testing.T, example *unstructured.Unstructured) *unstructured.Unstructured {
	client := k.client(example)
	before, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()

	created, err := client.Create(t.Context(), example, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	next(t, events, watch.Added)
	got, err := client.Get(t.Context(), example.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(created.Object, got.Object); diff != "" {
		t.Errorf("get differs from create (-create,+get):\n%s", diff)
	}
	k.checkTable(t, example)
	k.checkPages(t, client, example)

	first, err := client.Apply(t.Context(), example.GetName(), example, metav1.ApplyOptions{FieldManager: "integration", Force: true})
	if err != nil {
		t.Fatal(err)
	}
	next(t, events, watch.Modified)
	second, err := client.Apply(t.Context(), example.GetName(), example, metav1.ApplyOptions{FieldManager: "integration"})
	if err != nil {
		t.Fatal(err)
	}
	if first.GetResourceVersion() != second.GetResourceVersion() {
		t.Errorf("the second apply moved resourceVersion from %s to %s", first.GetResourceVersion(), second.GetResourceVersion())
	}
	if !k.status {
		return second
	}
	patched, err := client.Patch(t.Context(), example.GetName(), types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"through":"status"}},"status":{"conditions":[{"type":"Tested","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}],"owner":null}}`),
		metav1.PatchOptions{}, "status")
	if apierrors.IsInvalid(err) {
		// The status of a reservation is its owner, which nobody may change.
		return second
	}
	if err != nil {
		t.Fatal(err)
	}
	if patched.GetLabels()["through"] != "" || patched.GetGeneration() != second.GetGeneration() {
		t.Errorf("/status wrote more than status: labels %v, generation %d after %d", patched.GetLabels(), patched.GetGeneration(), second.GetGeneration())
	}
	return patched
}

func next(t *testing.T, events watch.Interface, want watch.EventType) {
	t.Helper()
	select {
	case event := <-events.ResultChan():
		if event.Type != want {
			t.Fatalf("watch: got %s, want %s: %v", event.Type, want, event.Object)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("watch: no %s within 10 s", want)
	}
}

func (k kindUnderTest) checkTable(t *testing.T, example *unstructured.Unstructured) {
	config := rest.CopyConfig(k.config)
	version := k.mapping.Resource.GroupVersion()
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &version, "/apis", scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	table := &metav1.Table{}
	err = client.Get().NamespaceIfScoped(example.GetNamespace(), k.resource.Namespaced).Resource(k.resource.Name).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(t.Context()).Into(table)
	if err != nil {
		t.Fatal(err)
	}
	if len(table.ColumnDefinitions) < 3 || len(table.Rows) == 0 {
		t.Errorf("table has %d columns and %d rows", len(table.ColumnDefinitions), len(table.Rows))
	}
}

func (k kindUnderTest) checkPages(t *testing.T, client dynamic.ResourceInterface, example *unstructured.Unstructured) {
	all, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	options := metav1.ListOptions{Limit: 1}
	for range all.Items {
		page, err := client.List(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page.Items)
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	if seen != len(all.Items) || options.Continue != "" {
		t.Errorf("%s: pages hold %d of %d objects (continue %q)", example.GetKind(), seen, len(all.Items), options.Continue)
	}
}

func deleteObject(t *testing.T, client dynamic.ResourceInterface, name string) {
	t.Helper()
	if err := client.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleting %s: %v", name, err)
	}
	if _, err := client.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("getting %s after delete: %v, want NotFound", name, err)
	}
}
