// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/controlplane/controllertest"
)

var gears = []schema.GroupVersionResource{
	{Group: "example.com", Version: "v1", Resource: "gears"}, {Group: "example.com", Version: "v2", Resource: "gears"},
}

// collect runs the garbage collector of a host that has none, behind a gate.
func collect(t *testing.T, h *host) *gate {
	t.Helper()
	config, g := throughGate(h.Admin())
	controllertest.RunGarbageCollector(t, config)
	return g
}

func withoutCollector(o *controlplane.Options) {
	o.DisabledControllers = []string{"garbage-collection", "namespace-deletion"}
}

// object is one of example.com or of the core, with owners.
func (f *family) object(resource schema.GroupVersionResource, kind, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	f.t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	obj.SetName(name)
	obj.SetOwnerReferences(owners)
	created, err := f.in(resource).Create(f.t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return created
}

// waitCollected returns when an object of the kind that is made now has been collected: what was there before has been seen, too.
func (f *family) waitCollected(resource schema.GroupVersionResource, kind, name string) {
	f.t.Helper()
	f.object(resource, kind, name, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "nobody", UID: "66666666-6666-6666-6666-666666666666"})
	f.wantGone(resource, name)
}

// wantOrphan wants an object to be there without owners.
func (f *family) wantOrphan(resource schema.GroupVersionResource, name string) {
	f.t.Helper()
	obj, err := f.in(resource).Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Errorf("the orphan: %v", err)
	} else if owners := obj.GetOwnerReferences(); len(owners) > 0 || obj.GetDeletionTimestamp() != nil {
		f.t.Errorf("the orphan has the owners %v, and its deletion was asked for at %v", owners, obj.GetDeletionTimestamp())
	}
}

// behind is a host that serves gears behind APIServices of another host.
type behind struct{ url string }

func (b *behind) ResolveEndpoint(string, string, int32) (*url.URL, error) { return url.Parse(b.url) }

// startBehind starts two hosts, of which the second serves gears for the first.
func startBehind(t *testing.T) (front, back *host, register, remove func()) {
	t.Helper()
	at := &behind{}
	front = startHost(t, func(o *controlplane.Options) {
		withoutCollector(o)
		o.ServiceResolver = at
	})
	pair, err := front.Serving.Serving("gears", "gears.default.svc", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	back = &host{front.Beside(func(o *controlplane.Options) {
		withoutCollector(o)
		o.Serving.CertFile, o.Serving.KeyFile = pair.CertFile, pair.KeyFile
	}), t}
	back.Start()
	createDefinition(t, back.Admin(), "gears", "v1")
	at.url = back.URL
	ca, err := os.ReadFile(front.Serving.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	apiServices := services(t, front.Admin()).ApiregistrationV1().APIServices()
	register = func() {
		t.Helper()
		_, err := apiServices.Create(t.Context(), &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: "example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, CABundle: ca,
				Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "gears", Port: ptr.To[int32](443)},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		waitServed(t, front.Admin(), gears[0], true)
	}
	remove = func() {
		t.Helper()
		if err := apiServices.Delete(t.Context(), "v1.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		waitServed(t, front.Admin(), gears[0], false)
	}
	return front, back, register, remove
}

// TestOwnersWaitForDependentsWhoseAPIServiceIsAway has an owner orphan, and another one wait for, objects of an extension server while that is
// not registered.
func TestOwnersWaitForDependentsWhoseAPIServiceIsAway(t *testing.T) {
	t.Parallel()
	h, _, register, remove := startBehind(t)
	register()
	g := collect(t, h)
	f := newFamily(t, h)
	orphaning, waiting := f.born(configMapsV1, "orphaning"), f.born(configMapsV1, "waiting")
	f.object(gears[0], "Gear", "orphan", ownedBy(orphaning, true))
	f.object(gears[0], "Gear", "child", ownedBy(waiting, true))
	f.waitCollected(gears[0], "Gear", "last")

	remove()
	g.waitDiscovered(t, h)
	f.delete(configMapsV1, "orphaning", metav1.DeletePropagationOrphan)
	f.delete(configMapsV1, "waiting", metav1.DeletePropagationForeground)
	f.waitCollected(configMapsV1, "ConfigMap", "later")
	for _, owner := range []string{"orphaning", "waiting"} {
		if _, err := f.in(configMapsV1).Get(t.Context(), owner, metav1.GetOptions{}); err != nil {
			t.Errorf("the owner %s while its dependent is out of reach: %v", owner, err)
		}
	}

	register()
	f.wantGone(configMapsV1, "orphaning", "waiting")
	f.waitCollected(gears[0], "Gear", "last")
	f.wantOrphan(gears[0], "orphan")
	f.wantGone(gears[0], "child")
}

// TestOwnersDoNotWaitForDependentsWhoseDefinitionIsGone has an owner wait for an object of a kind that is not served, until the kind is not
// defined either.
func TestOwnersDoNotWaitForDependentsWhoseDefinitionIsGone(t *testing.T) {
	t.Parallel()
	h := startHost(t, withoutCollector)
	createDefinition(t, h.Admin(), "gears", "v1")
	g := collect(t, h)
	f := newFamily(t, h)
	owners := []string{"orphaning", "waiting"}
	for _, name := range owners {
		f.object(gears[0], "Gear", "of-"+name, ownedBy(f.born(configMapsV1, name), true))
	}
	f.waitCollected(gears[0], "Gear", "last")
	serve(t, h.Admin(), "gears", "v1", false)
	g.waitDiscovered(t, h)
	f.delete(configMapsV1, "orphaning", metav1.DeletePropagationOrphan)
	f.delete(configMapsV1, "waiting", metav1.DeletePropagationForeground)
	f.waitCollected(configMapsV1, "ConfigMap", "later")
	for _, owner := range owners {
		f.get(configMapsV1, owner)
	}
	if err := definitions(t, h.Admin()).ApiextensionsV1().CustomResourceDefinitions().Delete(t.Context(), "gears.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantGone(configMapsV1, owners...)
}

// TestAVersionThatIsNotServedAnyMoreIsNoObjectThatIsGone ends the version of a dependent before the request that makes it an orphan.
func TestAVersionThatIsNotServedAnyMoreIsNoObjectThatIsGone(t *testing.T) {
	t.Parallel()
	h := startHost(t, withoutCollector)
	createDefinition(t, h.Admin(), "gears", "v1", "v2")
	g := collect(t, h)
	f := newFamily(t, h)
	f.object(gears[1], "Gear", "orphan", ownedBy(f.born(configMapsV1, "owner"), true))
	f.waitCollected(gears[1], "Gear", "last")
	patch, release := g.hold(http.MethodPatch, "/apis/example.com/v2/namespaces/default/gears/orphan")
	f.delete(configMapsV1, "owner", metav1.DeletePropagationOrphan)
	waitReached(t, patch)
	serve(t, h.Admin(), "gears", "v2", false)
	release()
	f.wantGone(configMapsV1, "owner")
	f.waitCollected(gears[0], "Gear", "later")
	f.wantOrphan(gears[0], "orphan")
}

// TestObjectsOfADefinitionThatIsBeingDeletedAreLetGo has the collector start when their kind is served without the verb patch.
func TestObjectsOfADefinitionThatIsBeingDeletedAreLetGo(t *testing.T) {
	t.Parallel()
	h := startHost(t, withoutCollector)
	createDefinition(t, h.Admin(), "gears", "v1")
	f := newFamily(t, h)
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Gear"}}
	obj.SetName("held")
	obj.SetFinalizers([]string{metav1.FinalizerDeleteDependents})
	if _, err := f.in(gears[0]).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := definitions(t, h.Admin()).ApiextensionsV1().CustomResourceDefinitions()
	if err := client.Delete(t.Context(), "gears.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	discovery := core(t, h.Admin()).Discovery()
	eventually(t, func() error {
		list, err := discovery.ServerResourcesForGroupVersion("example.com/v1")
		if err != nil || len(list.APIResources) != 1 {
			return fmt.Errorf("%w, %v", err, list)
		}
		for _, verb := range list.APIResources[0].Verbs {
			if verb == "patch" {
				return errors.New("the kind has the verb patch")
			}
		}
		if f.get(gears[0], "held").GetDeletionTimestamp() == nil {
			return errors.New("the object is not being deleted")
		}
		return nil
	})
	collect(t, h)
	eventually(t, func() error {
		_, err := client.Get(t.Context(), "gears.example.com", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the definition is still there: %w", err)
	})
}

// TestWhatHappensWhileAKindIsFollowedInAnotherVersion deletes an owner, and a dependent that blocks another owner, when nobody watches the kind:
// its preferred version has gone, and it is not followed in the next one yet.
func TestWhatHappensWhileAKindIsFollowedInAnotherVersion(t *testing.T) {
	t.Parallel()
	h := startHost(t, withoutCollector)
	createDefinition(t, h.Admin(), "gears", "v1", "v2")
	g := collect(t, h)
	f := newFamily(t, h)
	f.born(configMapsV1, "child", ownedBy(f.object(gears[1], "Gear", "owner"), false))
	blocking := f.object(gears[1], "Gear", "blocking", ownedBy(f.born(configMapsV1, "blocked"), true))
	held := []byte(`{"metadata":{"finalizers":["annex.test/hold"]}}`)
	if _, err := f.in(gears[1]).Patch(t.Context(), blocking.GetName(), types.MergePatchType, held, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.delete(configMapsV1, "blocked", metav1.DeletePropagationForeground)
	eventually(t, func() error {
		if f.get(gears[1], "blocking").GetDeletionTimestamp() == nil {
			return errors.New("what blocks the owner is not being deleted")
		}
		return nil
	})
	list, release := g.hold(http.MethodGet, "/apis/example.com/v1/gears")
	g.fail("/apis/example.com/v2/")
	serve(t, h.Admin(), "gears", "v2", false)
	waitReached(t, list)
	if _, err := f.in(gears[0]).Patch(t.Context(), "blocking", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	f.delete(gears[0], "owner", metav1.DeletePropagationBackground)
	f.wantGone(gears[0], "owner", "blocking")
	release()
	f.wantGone(configMapsV1, "child", "blocked")
}
