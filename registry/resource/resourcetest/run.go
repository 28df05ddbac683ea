// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcetest

import (
	"context"
	"maps"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Case describes one kind to Run.
type Case struct {
	Resource  schema.GroupVersionResource
	Kind      string
	Namespace string // empty for cluster-scoped kinds
	// Name is a valid name; Run appends "-a", "-b", … to make more unless Names lists them.
	Names []string
	// Spec is a valid desired state and ChangedSpec another one that an update may make of it.
	Spec, ChangedSpec map[string]any
	// Flat is set where the desired state is the object's own fields, and no field spec.
	Flat bool
	// Status is a valid status; nil for kinds without one.
	Status map[string]any
	// InvalidSpec is refused with 422 and a message that holds InvalidMessage.
	InvalidSpec    map[string]any
	InvalidMessage string
	// Columns are the headers of kubectl's table, wide ones included.
	Columns []string
	// Selectable maps field selectors to whether they match an object that has Spec and Status.
	Selectable map[string]bool
	// ShortNames must be found in discovery.
	ShortNames []string
	// CreateOnUpdate is set where a PUT may create, as the kind says.
	CreateOnUpdate bool
	// NoGenerations is set for a kind with a status whose changes are not counted, and MetadataWithStatus where its /status writes
	// metadata.
	NoGenerations, MetadataWithStatus bool
}

// kind is a case with the clients to work on it.
type kind struct {
	Case
	server  *Server
	dynamic dynamic.Interface
	rest    rest.Interface
}

// Run takes a kind through everything that each kind promises.
func Run(t *testing.T, server *Server, c Case) {
	t.Helper()
	client, err := dynamic.NewForConfig(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	k := &kind{Case: c, server: server, dynamic: client, rest: restClient(t, server.Config, c.Resource.GroupVersion())}
	k.waitServed(t)
	for _, check := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"discovery", k.checkDiscovery},
		{"create", k.checkCreate},
		{"invalid objects are refused", k.checkInvalid},
		{"dry run stores nothing", k.checkDryRun},
		{"update and generation", k.checkUpdate},
		{"optimistic locking", k.checkConflict},
		{"patches", k.checkPatches},
		{"server-side apply", k.checkApply},
		{"status isolation", k.checkStatus},
		{"list, pages and table", k.checkList},
		{"selectors", k.checkSelectors},
		{"watch", k.checkWatch},
		{"finalizers and deletion", k.checkDelete},
		{"deletecollection", k.checkDeleteCollection},
		{"stored as protobuf", k.checkStoredBytes},
	} {
		t.Run(check.name, func(t *testing.T) {
			defer k.clean(t)
			check.run(t)
		})
	}
}

func (k *kind) client() dynamic.ResourceInterface {
	if k.Namespace == "" {
		return k.dynamic.Resource(k.Resource)
	}
	return k.dynamic.Resource(k.Resource).Namespace(k.Namespace)
}

// object returns a valid object with the i-th name.
func (k *kind) object(i int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(k.Resource.GroupVersion().String())
	u.SetKind(k.Kind)
	u.SetName(k.Names[i])
	u.SetNamespace(k.Namespace)
	u.SetLabels(map[string]string{"resourcetest": k.Names[i]})
	if k.Spec != nil {
		maps.Copy(u.Object, k.desired(k.Spec))
	}
	return u
}

// desired returns the fields of an object that hold the desired state.
func (k *kind) desired(spec map[string]any) map[string]any {
	if k.Flat {
		return deepCopy(spec)
	}
	return map[string]any{"spec": deepCopy(spec)}
}

func (k *kind) create(t *testing.T, i int) *unstructured.Unstructured {
	t.Helper()
	out, err := k.client().Create(t.Context(), k.object(i), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatalf("creating %s: %v", k.Names[i], err)
	}
	return out
}

func (k *kind) get(t *testing.T, i int) *unstructured.Unstructured {
	t.Helper()
	out, err := k.client().Get(t.Context(), k.Names[i], metav1.GetOptions{})
	if err != nil {
		t.Fatalf("getting %s: %v", k.Names[i], err)
	}
	return out
}

// waitServed waits until the watch cache of the kind is filled for the first time.
func (k *kind) waitServed(t *testing.T) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		_, last = k.client().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting for %s to be served: %v", k.Resource.Resource, last)
	}
}

// clean removes what a check left, finalizers included.
func (k *kind) clean(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	list, err := k.client().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatalf("cleaning up: %v", err)
	}
	for i := range list.Items {
		name := list.Items[i].GetName()
		if len(list.Items[i].GetFinalizers()) > 0 {
			if _, err := k.client().Patch(ctx, name, "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("cleaning up %s: %v", name, err)
			}
		}
		if err := k.client().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("cleaning up %s: %v", name, err)
		}
	}
}
