// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/controlplane"
)

// notes is a server behind an APIService whose kind can be listed and deleted one by one.
type notes struct {
	mu   sync.Mutex
	away bool
	// names are of the objects that each namespace has.
	names map[string][]string
}

func (n *notes) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	const root = "/apis/notes.example.com/v1"
	path := strings.Split(strings.TrimPrefix(request.URL.Path, root), "/") // "", namespaces, <namespace>, notes, <name>
	switch {
	case request.URL.Path == root:
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "notes.example.com/v1",
			APIResources: []metav1.APIResource{
				{Name: "notes", SingularName: "note", Kind: "Note", Namespaced: true, Verbs: metav1.Verbs{"list", "delete"}},
				{Name: "answers", SingularName: "answer", Kind: "Answer", Namespaced: true, Verbs: metav1.Verbs{"create"}},
			},
		})
	case len(path) == 4 && path[3] == "notes" && request.Method == http.MethodGet:
		list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
		for _, name := range n.names[path[2]] {
			list.Items = append(list.Items, metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
				ObjectMeta: metav1.ObjectMeta{Namespace: path[2], Name: name, UID: "1"},
			})
		}
		_ = json.NewEncoder(w).Encode(list)
	case len(path) == 5 && path[3] == "notes" && request.Method == http.MethodDelete:
		n.names[path[2]] = slices.DeleteFunc(n.names[path[2]], func(name string) bool { return name == path[4] })
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	default:
		http.NotFound(w, request)
	}
}

func (n *notes) set(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = away
}

func (n *notes) left(namespace string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.names[namespace])
}

const notesService = "v1.notes.example.com"

// startNotes has notes served by a host, and waits until they are.
func startNotes(t *testing.T, namespaces ...string) (*emptying, *notes) {
	t.Helper()
	resolver := &toRemote{}
	e := startHost(t, func(o *controlplane.Options) { o.ServiceResolver = resolver }).emptying()
	n := &notes{names: map[string][]string{}}
	for _, namespace := range namespaces {
		e.fresh(t, namespace)
		e.put(t, configMapResource, "ConfigMap", namespace, "a")
		n.names[namespace] = []string{"a", "b", "c"}
	}
	server := startRemote(t, e.host)
	server.Config.Handler = n
	resolver.server.Store(server)
	ca, err := os.ReadFile(e.Serving.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	_, err = services(t, e.Admin()).ApiregistrationV1().APIServices().Create(t.Context(), &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: notesService},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "notes.example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10, CABundle: ca,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "remote", Port: ptr.To[int32](443)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.waitServed(t, true)
	return e, n
}

// waitServed waits until the notes can be asked for, or cannot.
func (e *emptying) waitServed(t *testing.T, want bool) {
	t.Helper()
	eventually(t, func() error {
		status, body := send(t, e.Admin(), http.MethodGet, e.URL+"/apis/notes.example.com/v1", "", nil)
		if (status == http.StatusOK) != want {
			return fmt.Errorf("the server behind the APIService: %d %s", status, body)
		}
		return nil
	})
}

func TestAggregatedKindsAreEmptied(t *testing.T) {
	t.Parallel()
	e, n := startNotes(t, "noted", "other")
	ns, err := e.namespaces.Get(t.Context(), "noted", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.remove(t, "noted")
	e.waitGone(t, ns)
	if n.left("noted") != 0 || n.left("other") != 3 {
		t.Errorf("%d objects are left in the namespace, %d in another one", n.left("noted"), n.left("other"))
	}
}

func TestAServerThatIsAwayHoldsANamespace(t *testing.T) {
	t.Parallel()
	e, n := startNotes(t, "back", "removed")
	n.set(true)
	touch(t, e.host, notesService)
	e.waitServed(t, false)
	e.remove(t, "back")
	e.remove(t, "removed")
	const failure = corev1.NamespaceDeletionDiscoveryFailure
	ns := e.waitCondition(t, "back", failure, "notes.example.com/v1")
	removed := e.waitCondition(t, "removed", failure, "notes.example.com/v1")
	if left := e.count(t, configMapResource, "back"); left > 0 {
		t.Errorf("%d objects of other kinds wait for the server that is away", left)
	}
	if n.left("back") != 3 {
		t.Errorf("%d objects are behind the server that is away", n.left("back"))
	}
	wantSteady(t, e, ns)

	if err := services(t, e.Admin()).ApiregistrationV1().APIServices().Delete(t.Context(), notesService, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.waitGone(t, removed)
	e.waitGone(t, ns)
}

func TestANamespaceGoesWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	e, n := startNotes(t, "back")
	n.set(true)
	// The host has not noticed yet that the server is away.
	e.remove(t, "back")
	ns := e.waitCondition(t, "back", corev1.NamespaceDeletionDiscoveryFailure, "notes.example.com/v1")
	n.set(false)
	touch(t, e.host, notesService)
	e.waitGone(t, ns)
	if n.left("back") != 0 {
		t.Errorf("%d objects outlived their namespace", n.left("back"))
	}
}

// wantSteady makes sure that attempts that come to the same write nothing.
func wantSteady(t *testing.T, e *emptying, ns *corev1.Namespace) {
	t.Helper()
	watch, err := e.namespaces.Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + ns.Name, ResourceVersion: ns.ResourceVersion, TimeoutSeconds: ptr.To[int64](3),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	changes := 0
	for event := range watch.ResultChan() {
		if err := apierrors.FromObject(event.Object); event.Type == "ERROR" {
			t.Fatal(err)
		}
		changes++
		t.Logf("changed: %+v", event.Object.(*corev1.Namespace).Status)
	}
	if changes > 1 {
		t.Errorf("the namespace changed %d times in 3 s, while nothing else did", changes)
	}
}
