// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/controlplane"
)

// TestBacklogWithCustomResources starts controllers on what was left to do while none of them ran. They must not take kinds that are not
// served yet for kinds that there are not.
func TestBacklogWithCustomResources(t *testing.T) {
	t.Parallel()
	const number = 20
	h := newHost(t, nil)
	h.Adjust = func(o *controlplane.Options) {
		o.DisabledControllers = []string{"garbage-collection", "namespace-deletion"}
	}
	h.Start()
	f := newFamily(t, h)
	createWidgetDefinition(t, h.Admin())
	eventually(t, func() error {
		_, err := f.in(widgets).List(t.Context(), metav1.ListOptions{})
		return err
	})
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	h.emptying().fresh(t, "leaving")
	widget := object(widgets, "Widget")
	widget.SetName("inside")
	if _, err := f.client.Resource(widgets).Namespace("leaving").Create(t.Context(), widget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.client.Resource(namespaces).Delete(t.Context(), "leaving", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range number {
		owner := f.born(configMapsV1, fmt.Sprintf("owner-%d", i))
		f.born(widgets, fmt.Sprintf("child-%d", i), ownedBy(owner, true))
		f.delete(configMapsV1, owner.GetName(), metav1.DeletePropagationOrphan)
	}
	h.Stop()
	h.Adjust = nil
	h.Start()
	f.client = anything(t, h.Admin())
	for i := range number {
		f.wantGone(configMapsV1, fmt.Sprintf("owner-%d", i))
	}
	for i := range number {
		if left := f.get(widgets, fmt.Sprintf("child-%d", i)).GetOwnerReferences(); len(left) > 0 {
			t.Errorf("child-%d has the owners %v", i, left)
		}
	}
	eventually(t, func() error {
		if left := h.stored(t, "/registry/core/namespaces/leaving"); len(left) > 0 {
			return fmt.Errorf("the namespace is still there: %v", left)
		}
		return nil
	})
	if left := h.stored(t, "/registry/example.com/widgets/leaving/"); len(left) > 0 {
		t.Errorf("the namespace is gone, and %d widgets of it are left", len(left))
	}
}

// TestOrphansWaitForAServerThatIsAway starts the garbage collector while nobody knows which kinds a server has, and so whether it has
// dependents of an owner whose deletion is to leave them.
func TestOrphansWaitForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	e, n := startNotes(t)
	serve := e.Adjust
	restart := func(without ...string) *family {
		e.Stop()
		e.Adjust = func(o *controlplane.Options) {
			serve(o)
			o.DisabledControllers = without
		}
		e.Start()
		return newFamily(t, e.host)
	}
	n.set(true)
	f := restart("garbage-collection")
	f.born(configMapsV1, "owner")
	f.delete(configMapsV1, "owner", metav1.DeletePropagationOrphan)
	f = restart()
	watch, err := f.in(configMapsV1).Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=owner", TimeoutSeconds: ptr.To[int64](3),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if event.Type == apiwatch.Deleted {
			t.Error("the owner did not wait")
		}
	}
	f.get(configMapsV1, "owner")
	n.set(false)
	touch(t, e.host, notesService)
	f.wantGone(configMapsV1, "owner")
}
