// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// prefix is that of the names of everything that stories make, or of the namespaces that it is in.
const prefix = "upkeep-"

// id is where an object is. The group of native kinds without one is empty.
type id struct{ group, resource, namespace, name string }

func idOf(of schema.GroupVersionResource, obj *unstructured.Unstructured) id {
	return id{of.Group, of.Resource, obj.GetNamespace(), obj.GetName()}
}

func (i id) String() string {
	return strings.Trim(schema.GroupResource{Group: i.group, Resource: i.resource}.String()+" "+i.namespace+"/"+i.name, "/")
}

// ours tells what stories have made.
func (i id) ours() bool {
	return strings.HasPrefix(i.namespace, prefix) || strings.HasPrefix(i.name, prefix)
}

// record is what is known about an object that stays.
type record struct {
	uid types.UID
	// content is what it is to be; nil for what others write, too.
	content map[string]any
	// owners are those that it is to refer to; nil for what is not looked at.
	owners sets.Set[types.UID]
	// maybe tells that nobody knows whether it was made.
	maybe bool
	// check may be nil.
	check func(*unstructured.Unstructured) error
}

// ledger is what is to be there in the end. What stories have made and it does not know has to be gone.
type ledger struct {
	authorities string
	replicas    int

	mu      sync.Mutex
	records map[id]*record
	// made counts all objects that ever were in it.
	made int
}

func newLedger(authorities string, replicas int) *ledger {
	return &ledger{authorities: authorities, replicas: replicas, records: map[id]*record{}}
}

// begin has everything stay that is there before the first story. Leases come and go.
func (l *ledger) begin(now *state) {
	for where, obj := range now.objects {
		if where.resource != "leases" && where.resource != "events" {
			l.records[where] = &record{uid: obj.GetUID()}
		}
	}
}

func (l *ledger) put(where id, r *record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.records[where] == nil {
		l.made++
	}
	l.records[where] = r
}

// keep says that an object stays as it is.
func (l *ledger) keep(of schema.GroupVersionResource, obj *unstructured.Unstructured) {
	l.put(idOf(of, obj), &record{uid: obj.GetUID(), content: contentOf(obj), owners: ownersOf(obj)})
}

// keepIf says that an object stays, and what is to be true of it.
func (l *ledger) keepIf(of schema.GroupVersionResource, obj *unstructured.Unstructured, check func(*unstructured.Unstructured) error) {
	l.put(idOf(of, obj), &record{uid: obj.GetUID(), check: check})
}

// perhaps says that an object may be there.
func (l *ledger) perhaps(where id) { l.put(where, &record{maybe: true}) }

// forget says that an object goes.
func (l *ledger) forget(where id) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.records, where)
}

// forgetNamespace says that all of a namespace goes.
func (l *ledger) forgetNamespace(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.records, func(where id, _ *record) bool {
		return where.namespace == name || where == id{resource: "namespaces", name: name}
	})
}

// letGo says that an object no longer refers to an owner.
func (l *ledger) letGo(where id, owner types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.records[where]; r != nil {
		r.owners.Delete(owner)
	}
}

// contentOf is an object without what is not its own, and what other writers may change.
func contentOf(obj *unstructured.Unstructured) map[string]any {
	content := obj.DeepCopy()
	for _, field := range []string{"resourceVersion", "managedFields", "ownerReferences", "generation"} {
		unstructured.RemoveNestedField(content.Object, "metadata", field)
	}
	// The form in which it is stored may be another.
	delete(content.Object, "apiVersion")
	return content.Object
}

func ownersOf(obj *unstructured.Unstructured) sets.Set[types.UID] {
	owners := sets.New[types.UID]()
	for _, reference := range obj.GetOwnerReferences() {
		owners.Insert(reference.UID)
	}
	return owners
}

// judge returns everything that is not as it should be.
func (l *ledger) judge(now *state) []string {
	l.mu.Lock()
	records := maps.Clone(l.records)
	l.mu.Unlock()
	findings := l.tended(now, records)
	for where, r := range records {
		obj := now.objects[where]
		switch {
		case obj == nil && r.maybe:
		case obj == nil:
			findings = append(findings, fmt.Sprintf("%s is gone", where))
		default:
			for _, finding := range r.judge(obj) {
				findings = append(findings, fmt.Sprintf("%s %s", where, finding))
			}
		}
	}
	for where, obj := range now.objects {
		if records[where] == nil && where.ours() {
			findings = append(findings, fmt.Sprintf("%s should not be there: deletion %v, finalizers %v, owners %v",
				where, obj.GetDeletionTimestamp(), obj.GetFinalizers(), obj.GetOwnerReferences()))
		}
	}
	slices.Sort(findings)
	return append(now.judge(l.replicas), findings...)
}

func (r *record) judge(obj *unstructured.Unstructured) (findings []string) {
	if r.uid != "" && obj.GetUID() != r.uid {
		return []string{fmt.Sprintf("is another one, with the uid %s", obj.GetUID())}
	}
	if obj.GetDeletionTimestamp() != nil {
		findings = append(findings, "is being deleted")
	}
	if r.content != nil {
		if diff := cmp.Diff(r.content, contentOf(obj)); diff != "" {
			findings = append(findings, "has changed (-want,+got):\n"+diff)
		}
	}
	if r.owners != nil {
		if got := ownersOf(obj); !got.Equal(r.owners) {
			findings = append(findings, fmt.Sprintf("has the owners %v, want %v", sets.List(got), sets.List(r.owners)))
		}
	}
	if r.check != nil {
		if err := r.check(obj); err != nil {
			findings = append(findings, err.Error())
		}
	}
	return findings
}

// tended adds what controllers make for each namespace to what is to be there.
func (l *ledger) tended(now *state, records map[id]*record) (findings []string) {
	for where := range maps.Clone(records) {
		if where.group != "" || where.resource != "namespaces" {
			continue
		}
		account := id{resource: "serviceaccounts", namespace: where.name, name: "default"}
		if records[account] == nil {
			records[account] = &record{}
		}
		authorities := id{resource: "configmaps", namespace: where.name, name: "kube-root-ca.crt"}
		if records[authorities] == nil {
			records[authorities] = &record{}
		}
		if obj := now.objects[authorities]; obj != nil {
			if got, _, _ := unstructured.NestedString(obj.Object, "data", "ca.crt"); got != l.authorities {
				findings = append(findings, fmt.Sprintf("%s holds %q", authorities, got))
			}
		}
		if obj := now.objects[where]; obj != nil {
			if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase != "Active" {
				findings = append(findings, fmt.Sprintf("%s is %s", where, phase))
			}
		}
	}
	return findings
}

// described names an object to a story.
func described(of schema.GroupVersionResource, kind, namespace, name string, content map[string]any, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(obj.Object, content)
	obj.SetGroupVersionKind(of.GroupVersion().WithKind(kind))
	obj.SetNamespace(namespace)
	obj.SetName(name)
	if len(owners) > 0 {
		obj.SetOwnerReferences(owners)
	}
	return obj
}
