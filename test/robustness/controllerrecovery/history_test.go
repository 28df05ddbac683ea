// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/kube-annex/annex/test/robustness/validate"
)

// clock is how moments are told.
const clock = "15:04:05.000"

// history follows etcd, and looks at quotas and certificates at every revision.
type history struct {
	*validate.History
	decoder *decoder

	// numbers of objects, by namespace and kind, of quotas by namespace, and certificates by request.
	numbers      map[id]int64
	quotas       map[string]map[string]*unstructured.Unstructured
	certificates map[string]string
	terms        map[string]bool
	// lives are what has become of each object of stories, for people.
	lives map[id][]string
}

func newHistory(d *decoder, revision int64) *history {
	return &history{
		History: validate.NewHistory(revision), decoder: d, numbers: map[id]int64{}, quotas: map[string]map[string]*unstructured.Unstructured{},
		certificates: map[string]string{}, terms: map[string]bool{}, lives: map[id][]string{},
	}
}

func (h *history) step(_ int64, events []*clientv3.Event) error {
	for _, event := range events {
		if err := h.take(event); err != nil {
			return fmt.Errorf("%s: %w", event.Kv.Key, err)
		}
	}
	return nil
}

// take looks at one change. Rules hold after each of those that a transaction makes.
func (h *history) take(event *clientv3.Event) error {
	where, ok := place(string(event.Kv.Key))
	if !ok {
		return nil
	}
	kind := where
	kind.name = ""
	switch {
	case event.Type == clientv3.EventTypeDelete:
		h.tell(event, where, "deleted")
		h.numbers[kind]--
		if where.resource == "resourcequotas" {
			delete(h.quotas[where.namespace], where.name)
		}
		return nil
	case event.IsCreate():
		h.numbers[kind]++
		h.lookAtNumbers(where.namespace)
	}
	obj, err := h.decoder.decode(event.Kv.Value)
	if err != nil {
		return err
	}
	h.tell(event, where, fmt.Sprintf("deletion %v, finalizers %v, owners %v", obj.GetDeletionTimestamp(), obj.GetFinalizers(), sets.List(ownersOf(obj))))
	switch where.resource {
	case "resourcequotas":
		h.lookAtQuota(where, obj)
	case "certificatesigningrequests":
		h.lookAtRequest(where, obj)
	case "leases":
		if holder, _, _ := unstructured.NestedString(obj.Object, "spec", "holderIdentity"); where.name == "annex-controlplane" && holder != "" {
			h.terms[holder] = true
		}
	}
	return nil
}

// tell puts down what has become of an object of a story.
func (h *history) tell(event *clientv3.Event, where id, what string) {
	if where.ours() {
		h.lives[where] = append(h.lives[where], fmt.Sprintf("  revision %d at %s: %s", event.Kv.ModRevision, time.Now().Format(clock), what))
	}
}

// lifeOf is everything that has become of the object that a finding is about.
func (h *history) lifeOf(finding string) string {
	h.Lock()
	defer h.Unlock()
	for where, life := range h.lives {
		if strings.HasPrefix(finding, where.String()+" ") {
			return finding + "\n" + strings.Join(life, "\n")
		}
	}
	return finding
}

func (h *history) lookAtNumbers(namespace string) {
	for name, quota := range h.quotas[namespace] {
		for limit, hard := range amounts(quota, "spec", "hard") {
			if number := h.numbers[limited(namespace, limit)]; number > hard {
				h.Violate("there are %d %s in %s, of which %s allows %d", number, limit, namespace, name, hard)
			}
		}
	}
}

func (h *history) lookAtQuota(where id, quota *unstructured.Unstructured) {
	if h.quotas[where.namespace] == nil {
		h.quotas[where.namespace] = map[string]*unstructured.Unstructured{}
	}
	h.quotas[where.namespace][where.name] = quota
	hard := amounts(quota, "spec", "hard")
	for name, used := range amounts(quota, "status", "used") {
		if used > hard[name] {
			h.Violate("%s says that %d %s are used, and allows %d", where, used, name, hard[name])
		}
		if number := h.numbers[limited(where.namespace, name)]; used < number {
			// Objects are charged before they are stored, and stay charged until they are deleted.
			h.Violate("%s says that %d %s are used, and there are %d", where, used, name, number)
		}
	}
}

func (h *history) lookAtRequest(where id, request *unstructured.Unstructured) {
	certificate, _, _ := unstructured.NestedString(request.Object, "status", "certificate")
	before := h.certificates[where.name]
	h.certificates[where.name] = certificate
	if certificate != "" && !approved(request) {
		h.Violate("%s has a certificate and is not approved", where)
	}
	if before != "" && before != certificate {
		h.Violate("%s has another certificate than before", where)
	}
}

func (h *history) String() string {
	revision := h.Revision()
	h.Lock()
	defer h.Unlock()
	return fmt.Sprintf("%d revisions, %d terms", revision, len(h.terms))
}

// amounts are the numbers in a field of a quota.
func amounts(quota *unstructured.Unstructured, field ...string) map[string]int64 {
	list, _, _ := unstructured.NestedStringMap(quota.Object, field...)
	all := map[string]int64{}
	for name, amount := range maps.All(list) {
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			continue
		}
		all[name] = quantity.Value()
	}
	return all
}

func approved(request *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(request.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == "Approved"
	})
}
