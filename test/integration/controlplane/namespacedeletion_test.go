// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

// emptying is a host whose namespaces are filled and deleted.
type emptying struct {
	*host
	namespaces typedcorev1.NamespaceInterface
	objects    dynamic.Interface
}

func (h *host) emptying() *emptying {
	h.t.Helper()
	admin := h.Admin()
	return &emptying{h, core(h.t, admin).CoreV1().Namespaces(), anything(h.t, admin)}
}

// fresh makes a namespace.
func (e *emptying) fresh(t *testing.T, name string) *corev1.Namespace {
	t.Helper()
	ns, err := e.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// put creates an object, once its kind is served.
func (e *emptying) put(t *testing.T, resource schema.GroupVersionResource, kind, namespace, name string, finalizers ...string) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion(resource.GroupVersion().String())
	object.SetKind(kind)
	object.SetName(name)
	object.SetFinalizers(finalizers)
	eventually(t, func() error {
		_, err := e.objects.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func (e *emptying) remove(t *testing.T, name string) {
	t.Helper()
	if err := e.namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// waitGone returns when the namespace is no more. It may take a while on a machine that has much to do.
func (e *emptying) waitGone(t *testing.T, ns *corev1.Namespace) {
	t.Helper()
	last, err := e.namespaces.Get(t.Context(), ns.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	watch, err := e.namespaces.Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + ns.Name, ResourceVersion: last.ResourceVersion, TimeoutSeconds: ptr.To[int64](120),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		current, ok := event.Object.(*corev1.Namespace)
		if !ok {
			t.Fatal(apierrors.FromObject(event.Object))
		}
		if event.Type == "DELETED" {
			return
		}
		last = current
	}
	t.Fatalf("the namespace is there: %+v", last.Status)
}

// waitCondition returns the namespace once the condition is true, with a message that has the text.
func (e *emptying) waitCondition(t *testing.T, name string, condition corev1.NamespaceConditionType, text string) *corev1.Namespace {
	t.Helper()
	var ns *corev1.Namespace
	eventually(t, func() (err error) {
		if ns, err = e.namespaces.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, have := range ns.Status.Conditions {
			if have.Type == condition && have.Status == corev1.ConditionTrue && strings.Contains(have.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("%s is not true with %q: %+v", condition, text, ns.Status.Conditions)
	})
	return ns
}

func (e *emptying) count(t *testing.T, resource schema.GroupVersionResource, namespace string) int {
	t.Helper()
	list, err := e.objects.Resource(resource).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

var (
	configMapResource = corev1.SchemeGroupVersion.WithResource("configmaps")
	secretResource    = corev1.SchemeGroupVersion.WithResource("secrets")
	leaseResource     = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// define makes custom kinds, and returns their resources by the kinds' names.
func (e *emptying) define(t *testing.T, kinds ...string) map[string]schema.GroupVersionResource {
	t.Helper()
	out := map[string]schema.GroupVersionResource{}
	keep := true
	for _, kind := range kinds {
		plural := strings.ToLower(kind) + "s"
		out[kind] = schema.GroupVersionResource{Group: "emptied.example.com", Version: "v1", Resource: plural}
		_, err := definitions(t, e.Admin()).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".emptied.example.com"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "emptied.example.com", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
						OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep},
					},
				}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestADeletedNamespaceIsEmptied(t *testing.T) {
	t.Parallel()
	e := startHost(t, nil).emptying()
	resources := e.define(t, "Aa", "Bb", "Cc", "Dd", "Ee", "Ff", "Gg")
	resources["ConfigMap"], resources["Secret"], resources["Lease"] = configMapResource, secretResource, leaseResource
	big, other, bystander := e.fresh(t, "big"), e.fresh(t, "other"), e.fresh(t, "bystander")
	const each = 100
	var creating sync.WaitGroup
	for kind, resource := range resources {
		creating.Go(func() {
			for i := range each {
				e.put(t, resource, kind, big.Name, fmt.Sprintf("o-%d", i))
			}
			e.put(t, resource, kind, other.Name, "o")
			e.put(t, resource, kind, bystander.Name, "o")
		})
	}
	creating.Wait()
	if t.Failed() {
		return
	}

	began := time.Now()
	e.remove(t, big.Name)
	e.remove(t, other.Name)
	e.waitGone(t, big)
	t.Logf("%d objects of %d kinds were gone with their namespace after %s", each*len(resources), len(resources), time.Since(began))
	e.waitGone(t, other)
	for kind, resource := range resources {
		if left := e.count(t, resource, big.Name) + e.count(t, resource, other.Name); left > 0 {
			t.Errorf("%d objects of kind %s outlived their namespace", left, kind)
		}
		if left := e.count(t, resource, bystander.Name); left != 1 {
			t.Errorf("%d objects of kind %s are left in another namespace", left, kind)
		}
	}
	recreated := e.fresh(t, big.Name)
	e.put(t, configMapResource, "ConfigMap", big.Name, "o-1")
	if recreated.UID == big.UID || e.count(t, configMapResource, big.Name) != 1 {
		t.Error("the namespace of the same name does not start anew")
	}
}

func TestFinalizersHoldANamespace(t *testing.T) {
	t.Parallel()
	e := sharedHost(t).emptying()
	resource := e.define(t, "Held")["Held"]
	ns := e.fresh(t, "held")
	e.put(t, resource, "Held", ns.Name, "a", "example.com/hold")
	e.put(t, resource, "Held", ns.Name, "b", "example.com/hold", "example.com/more")
	e.put(t, resource, "Held", ns.Name, "c", metav1.FinalizerOrphanDependents)
	e.put(t, configMapResource, "ConfigMap", ns.Name, "c")

	e.remove(t, ns.Name)
	e.waitCondition(t, ns.Name, corev1.NamespaceFinalizersRemaining, "example.com/hold (2), example.com/more (1)")
	e.waitCondition(t, ns.Name, corev1.NamespaceContentRemaining, "helds.emptied.example.com (2)")
	for resource, kind := range map[schema.GroupVersionResource]string{configMapResource: "ConfigMap", resource: "Held"} {
		late := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": "late"},
		}}
		_, err := e.objects.Resource(resource).Namespace(ns.Name).Create(t.Context(), late, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("a %s, created while the namespace terminates: got %v, want 403 that says so", kind, err)
		}
	}
	release := func(name string) {
		t.Helper()
		if _, err := e.objects.Resource(resource).Namespace(ns.Name).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	release("a")
	e.waitCondition(t, ns.Name, corev1.NamespaceFinalizersRemaining, "example.com/hold (1), example.com/more (1)")
	release("b")
	e.waitGone(t, ns)
}

func TestANamespaceIsEmptiedAfterARestart(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	e := h.emptying()
	ns := e.fresh(t, "interrupted")
	for i := range 50 {
		e.put(t, configMapResource, "ConfigMap", ns.Name, fmt.Sprintf("o-%d", i))
	}
	e.put(t, leaseResource, "Lease", ns.Name, "held", "example.com/hold")
	e.remove(t, ns.Name)
	h.Stop()
	h.Start()
	e = h.emptying()
	e.waitCondition(t, ns.Name, corev1.NamespaceContentRemaining, "leases.coordination.k8s.io (1)")
	if _, err := e.objects.Resource(leaseResource).Namespace(ns.Name).Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	e.waitGone(t, ns)
	if left := e.count(t, configMapResource, ns.Name); left > 0 {
		t.Errorf("%d objects outlived their namespace", left)
	}
}

func TestANamespaceWithoutFinalizersIsEmptiedToo(t *testing.T) {
	t.Parallel()
	e := sharedHost(t).emptying()
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "annex-system"} {
		if err := e.namespaces.Delete(t.Context(), name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("deleting %s: got %v, want 403", name, err)
		}
	}
	bare, shared := e.fresh(t, "bare"), e.fresh(t, "shared")
	e.put(t, configMapResource, "ConfigMap", bare.Name, "a")
	bare.Spec.Finalizers = nil
	if _, err := e.namespaces.Finalize(t.Context(), bare, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.remove(t, bare.Name)
	e.waitGone(t, bare)
	if left := e.count(t, configMapResource, bare.Name); left > 0 {
		t.Errorf("%d objects outlived their namespace", left)
	}

	shared.Spec.Finalizers = append(shared.Spec.Finalizers, "example.com/other")
	if _, err := e.namespaces.Finalize(t.Context(), shared, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.remove(t, shared.Name)
	var current *corev1.Namespace
	eventually(t, func() (err error) {
		if current, err = e.namespaces.Get(t.Context(), shared.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if len(current.Spec.Finalizers) != 1 || current.Spec.Finalizers[0] != "example.com/other" {
			return fmt.Errorf("finalizers are %v", current.Spec.Finalizers)
		}
		return nil
	})
	current.Spec.Finalizers = nil
	if _, err := e.namespaces.Finalize(t.Context(), current, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.waitGone(t, shared)
}

func TestTheNextLeaderGoesOnWithANamespace(t *testing.T) {
	t.Parallel()
	replicas := startReplicas(t, "before", "after")
	first, second := replicas[0].client.CoreV1(), replicas[1].client.CoreV1()
	if _, err := first.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "handed-over"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	if _, err := first.ConfigMaps("handed-over").Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := first.Namespaces().Delete(t.Context(), "handed-over", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := second.ConfigMaps("handed-over").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); err == nil {
		// The other replica may not have heard of the deletion yet, which is why namespaces are not let go at once.
		t.Log("the other replica took an object")
	}
	replicas[0].stop(t)
	if _, err := second.ConfigMaps("handed-over").Patch(t.Context(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		ns, err := second.Namespaces().Get(t.Context(), "handed-over", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the namespace is there: %w, %+v", err, ns.Status)
	})
	if list, err := second.ConfigMaps("handed-over").List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("%d objects outlived their namespace: %v", len(list.Items), err)
	}
}
