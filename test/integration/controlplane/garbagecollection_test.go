// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var (
	configMapsV1 = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secretsV1    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	rolesV1      = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	kindsByName  = map[schema.GroupVersionResource]schema.GroupVersionKind{
		configMapsV1: {Version: "v1", Kind: "ConfigMap"}, secretsV1: {Version: "v1", Kind: "Secret"},
		widgets: {Group: "example.com", Version: "v1", Kind: "Widget"},
		rolesV1: {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	}
)

// family makes objects that own each other.
type family struct {
	t         *testing.T
	client    dynamic.Interface
	namespace string
}

// newFamily is in the namespace default.
func newFamily(t *testing.T, h *host) *family {
	return &family{t: t, client: anything(t, h.Admin()), namespace: "default"}
}

// newSharedFamily is in a namespace of its own on the host that tests share.
func newSharedFamily(t *testing.T) *family {
	h := sharedHost(t)
	f := newFamily(t, h)
	f.namespace = h.namespace(t)
	return f
}

func (f *family) in(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if resource == rolesV1 {
		return f.client.Resource(resource)
	}
	return f.client.Resource(resource).Namespace(f.namespace)
}

// born creates an object with owners.
func (f *family) born(resource schema.GroupVersionResource, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	f.t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kindsByName[resource])
	obj.SetName(name)
	obj.SetOwnerReferences(owners)
	created, err := f.in(resource).Create(f.t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return created
}

func ownedBy(owner *unstructured.Unstructured, blocking bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), BlockOwnerDeletion: &blocking}
}

func (f *family) delete(resource schema.GroupVersionResource, name string, policy metav1.DeletionPropagation) {
	f.t.Helper()
	if err := f.in(resource).Delete(f.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *family) wantGone(resource schema.GroupVersionResource, names ...string) {
	f.t.Helper()
	for _, name := range names {
		eventually(f.t, func() error {
			_, err := f.in(resource).Get(f.t.Context(), name, metav1.GetOptions{})
			if err == nil {
				return fmt.Errorf("%s %s is still there", resource.Resource, name)
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		})
	}
}

func (f *family) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	f.t.Helper()
	obj, err := f.in(resource).Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return obj
}

func TestDependentsGoInTheBackground(t *testing.T) {
	t.Parallel()
	f := newSharedFamily(t)
	owner := f.born(configMapsV1, "owner")
	child := f.born(secretsV1, "child", ownedBy(owner, true))
	f.born(configMapsV1, "grandchild", ownedBy(child, true))
	role := f.born(rolesV1, "cluster-owner")
	f.born(configMapsV1, "of-a-role", ownedBy(role, false))
	f.born(configMapsV1, "of-two", ownedBy(role, false), ownedBy(f.born(configMapsV1, "other"), false))
	f.delete(configMapsV1, "owner", metav1.DeletePropagationBackground)
	f.wantGone(configMapsV1, "owner", "grandchild")
	f.wantGone(secretsV1, "child")
	f.delete(rolesV1, "cluster-owner", metav1.DeletePropagationBackground)
	f.wantGone(configMapsV1, "of-a-role")
	eventually(t, func() error {
		if left := f.get(configMapsV1, "of-two").GetOwnerReferences(); len(left) != 1 || left[0].Name != "other" {
			return fmt.Errorf("the object with two owners has %v", left)
		}
		return nil
	})
}

func TestForegroundDeletionWaitsForWhatBlocksIt(t *testing.T) {
	t.Parallel()
	f := newSharedFamily(t)
	owner := f.born(configMapsV1, "owner")
	blocking := f.born(configMapsV1, "blocking", ownedBy(owner, true))
	f.born(configMapsV1, "below", ownedBy(blocking, true))
	f.born(secretsV1, "loose", ownedBy(owner, false))
	held := f.born(configMapsV1, "held", ownedBy(owner, true), ownedBy(f.born(configMapsV1, "other"), true))
	patch := []byte(`{"metadata":{"finalizers":["annex.test/hold"]}}`)
	if _, err := f.in(configMapsV1).Patch(t.Context(), "below", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.delete(configMapsV1, "owner", metav1.DeletePropagationForeground)
	f.wantGone(secretsV1, "loose")
	eventually(t, func() error {
		if left := f.get(configMapsV1, held.GetName()).GetOwnerReferences(); len(left) != 1 {
			return fmt.Errorf("what another owner holds has the owners %v", left)
		}
		if f.get(configMapsV1, "below").GetDeletionTimestamp() == nil {
			return errors.New("what is below is not being deleted")
		}
		return nil
	})
	for _, name := range []string{"owner", "blocking"} {
		if f.get(configMapsV1, name).GetDeletionTimestamp() == nil {
			t.Errorf("%s is not being deleted", name)
		}
	}
	if _, err := f.in(configMapsV1).Patch(t.Context(), "below", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantGone(configMapsV1, "below", "blocking", "owner")
}

func TestForegroundDeletionOfACycle(t *testing.T) {
	t.Parallel()
	f := newSharedFamily(t)
	one := f.born(configMapsV1, "one")
	two := f.born(configMapsV1, "two", ownedBy(one, true))
	three := f.born(configMapsV1, "three", ownedBy(two, true))
	one.SetOwnerReferences([]metav1.OwnerReference{ownedBy(three, true)})
	if _, err := f.in(configMapsV1).Update(t.Context(), one, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.delete(configMapsV1, "one", metav1.DeletePropagationForeground)
	f.wantGone(configMapsV1, "one", "two", "three")
}

func TestOrphansStay(t *testing.T) {
	t.Parallel()
	f := newSharedFamily(t)
	owner := f.born(configMapsV1, "owner")
	for i := range 20 {
		f.born(secretsV1, fmt.Sprintf("child-%d", i), ownedBy(owner, true))
	}
	f.delete(configMapsV1, "owner", metav1.DeletePropagationOrphan)
	f.wantGone(configMapsV1, "owner")
	for i := range 20 {
		if left := f.get(secretsV1, fmt.Sprintf("child-%d", i)).GetOwnerReferences(); len(left) > 0 {
			t.Errorf("child-%d has the owners %v", i, left)
		}
	}
}

func TestOwnersThatWereNeverThere(t *testing.T) {
	t.Parallel()
	f := newSharedFamily(t)
	stays := f.born(configMapsV1, "stays")
	no := false
	ref := func(kind, name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: uid, BlockOwnerDeletion: &no}
	}
	f.born(configMapsV1, "of-nobody", ref("ConfigMap", "nobody", "11111111-1111-1111-1111-111111111111"))
	f.born(configMapsV1, "of-another-uid", ref("ConfigMap", "stays", "22222222-2222-2222-2222-222222222222"))
	f.born(configMapsV1, "of-another-kind", ref("Secret", "stays", stays.GetUID()))
	f.born(configMapsV1, "of-an-unknown-kind", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "a", UID: "33333333-3333-3333-3333-333333333333"})
	f.born(rolesV1, "of-a-namespaced-owner", ref("ConfigMap", "stays", stays.GetUID()))
	f.wantGone(configMapsV1, "of-nobody", "of-another-uid", "of-another-kind")
	// The one above shows that all have been looked at.
	f.born(configMapsV1, "child", ownedBy(stays, false))
	f.born(configMapsV1, "last", ref("ConfigMap", "nobody", "44444444-4444-4444-4444-444444444444"))
	f.wantGone(configMapsV1, "last")
	f.get(configMapsV1, "child")
	f.get(configMapsV1, "of-an-unknown-kind")
	f.get(rolesV1, "of-a-namespaced-owner")
}

// TestCustomResourcesAreCollected has owners and dependents of a kind that is defined while the controller runs.
func TestCustomResourcesAreCollected(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	f := newFamily(t, h)
	createWidgetDefinition(t, h.Admin())
	eventually(t, func() error {
		_, err := f.in(widgets).List(t.Context(), metav1.ListOptions{})
		return err
	})
	owner := f.born(configMapsV1, "owner")
	widget := f.born(widgets, "child", ownedBy(owner, true))
	f.born(configMapsV1, "grandchild", ownedBy(widget, true))
	f.delete(configMapsV1, "owner", metav1.DeletePropagationForeground)
	f.wantGone(configMapsV1, "owner", "grandchild")
	f.wantGone(widgets, "child")

	other := f.born(widgets, "other")
	f.born(configMapsV1, "of-other", ownedBy(other, false))
	if err := definitions(t, h.Admin()).ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantGone(configMapsV1, "of-other")
}

// TestDependentsOfAnUnreadableOwnerStay has the bytes of an owner go bad, which watches tell as its deletion.
func TestDependentsOfAnUnreadableOwnerStay(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	f := newFamily(t, h)
	owner := f.born(configMapsV1, "owner")
	f.born(configMapsV1, "child", ownedBy(owner, true))
	if _, err := h.Backend.Client.Put(t.Context(), "/registry/core/configmaps/default/owner", "k8s\x00 and then nonsense"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		list, err := f.in(configMapsV1).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err == nil && slices.ContainsFunc(list.Items, func(item unstructured.Unstructured) bool { return item.GetName() == "owner" }) {
			err = errors.New("the owner is still listed")
		}
		return err
	})
	// What has to be collected later shows that the child has been decided upon.
	f.born(configMapsV1, "last", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "55555555-5555-5555-5555-555555555555"})
	f.wantGone(configMapsV1, "last")
	f.get(configMapsV1, "child")
}

// TestManyDependents prints how long it takes to collect what ten thousand objects are a tenth of.
func TestManyDependents(t *testing.T) {
	t.Parallel()
	f := newSharedFamily(t)
	owner := f.born(configMapsV1, "owner")
	const count = 1000
	var creating sync.WaitGroup
	for worker := range 10 {
		creating.Go(func() {
			for i := range count / 10 {
				obj := &unstructured.Unstructured{}
				obj.SetGroupVersionKind(kindsByName[secretsV1])
				obj.SetName(fmt.Sprintf("child-%d-%d", worker, i))
				obj.SetOwnerReferences([]metav1.OwnerReference{ownedBy(owner, true)})
				if _, err := f.in(secretsV1).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
					t.Errorf("create: %v", err)
					return
				}
			}
		})
	}
	creating.Wait()
	began := time.Now()
	f.delete(configMapsV1, "owner", metav1.DeletePropagationForeground)
	f.wantGone(configMapsV1, "owner")
	if left, err := f.in(secretsV1).List(t.Context(), metav1.ListOptions{}); err != nil || len(left.Items) > 0 {
		t.Errorf("%d dependents are left, %v", len(left.Items), err)
	}
	t.Logf("%d dependents were collected in %s", count, time.Since(began).Round(time.Millisecond))
}

// TestCollectionGoesOnAfterARestart stops the server in the middle.
func TestCollectionGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	f := newFamily(t, h)
	owner := f.born(configMapsV1, "owner")
	for i := range 200 {
		f.born(secretsV1, fmt.Sprintf("child-%d", i), ownedBy(owner, true))
	}
	f.delete(configMapsV1, "owner", metav1.DeletePropagationForeground)
	h.Stop()
	h.Start()
	f.client = anything(t, h.Admin())
	f.wantGone(configMapsV1, "owner")
	eventually(t, func() error {
		left, err := f.in(secretsV1).List(context.WithoutCancel(t.Context()), metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d dependents are left", len(left.Items))
		}
		return err
	})
}
