// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	// group is that of the custom resources.
	group = "upkeep.example.com"
	// hold is a finalizer that only a story takes off.
	hold = "upkeep.example.com/hold"
	// longestPause is between two steps of a story.
	longestPause = 600 * time.Millisecond

	identityLabel = "apiserver.kubernetes.io/identity"
	identityValue = "annex-controlplane"
)

var (
	namespaces     = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps     = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets        = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	accounts       = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	quotas         = schema.GroupVersionResource{Version: "v1", Resource: "resourcequotas"}
	leases         = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	roles          = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	clusterRoles   = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	signingRequest = schema.GroupVersionResource{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"}
	policies       = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	migrations     = schema.GroupVersionResource{Group: "storagemigration.k8s.io", Version: "v1", Resource: "storageversionmigrations"}
	definitions    = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	widgets        = schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}
)

// storyKinds are those that replicas are asked for in the end.
func storyKinds() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		namespaces, configMaps, secrets, accounts, quotas, leases, roles, clusterRoles, signingRequest, policies, migrations, definitions, widgets,
	}
}

// sample is a kind whose objects stories make many of. The content is different in each object.
type sample struct {
	of      schema.GroupVersionResource
	kind    string
	content func(text string) map[string]any
}

func samples() []sample {
	return []sample{
		{configMaps, "ConfigMap", func(text string) map[string]any { return map[string]any{"data": map[string]any{"text": text}} }},
		{secrets, "Secret", func(text string) map[string]any {
			return map[string]any{"type": "Opaque", "data": map[string]any{"text": base64.StdEncoding.EncodeToString([]byte(text))}}
		}},
		{widgets, "Widget", func(text string) map[string]any { return map[string]any{"spec": map[string]any{"text": text}} }},
		{leases, "Lease", func(text string) map[string]any {
			return map[string]any{"spec": map[string]any{"holderIdentity": text}}
		}},
		{roles, "Role", func(text string) map[string]any { return map[string]any{"rules": []any{ruleAbout(text)}} }},
	}
}

func ruleAbout(name string) map[string]any {
	return map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{name}, "verbs": []any{"get"}}
}

// leftover is what a later round removes.
type leftover struct {
	of  schema.GroupVersionResource
	obj *unstructured.Unstructured
}

// story does one kind of work, in a part of the API that it has for itself.
type story struct {
	*requests
	ledger *ledger
	// name is that of this story alone.
	name string

	mu        sync.Mutex
	leftovers []leftover
}

// beside returns requests that may be made at the same time as the story's own.
func (s *story) beside() *requests {
	return newRequests(s.world, s.random.Uint64())
}

// chance is true in so many of a hundred cases.
func (s *story) chance(percent int) bool { return s.random.IntN(100) < percent }

func (s *story) pause(ctx context.Context) {
	poll.Pause(ctx, time.Duration(s.random.Int64N(int64(longestPause))))
}

func (s *story) later(of schema.GroupVersionResource, obj *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftovers = append(s.leftovers, leftover{of, obj})
}

// namespace makes one of the story's own.
func (s *story) namespace(ctx context.Context, suffix string) (string, error) {
	created, _, err := s.create(ctx, namespaces, described(namespaces, "Namespace", "", prefix+s.name+suffix, nil))
	if err != nil {
		return "", err
	}
	s.ledger.keepIf(namespaces, created, nil)
	s.later(namespaces, created)
	return created.GetName(), nil
}

// global makes an object that is in no namespace.
func (s *story) global(ctx context.Context, of schema.GroupVersionResource, kind, suffix string, content map[string]any) (*unstructured.Unstructured, error) {
	created, _, err := s.create(ctx, of, described(of, kind, "", prefix+s.name+suffix, content))
	if err == nil {
		s.ledger.keepIf(of, created, nil)
		s.later(of, created)
	}
	return created, err
}

// labelled adds labels to the content of an object.
func labelled(content map[string]any, labels map[string]any) map[string]any {
	out := maps.Clone(content)
	out["metadata"] = map[string]any{"labels": labels}
	return out
}

// clean removes what a story before this one has left behind.
func (s *story) clean(ctx context.Context, leftovers []leftover) error {
	for _, left := range leftovers {
		s.pause(ctx)
		switch left.of {
		case namespaces:
			s.ledger.forgetNamespace(left.obj.GetName())
		default:
			s.ledger.forget(idOf(left.of, left.obj))
		}
		if err := s.remove(ctx, left.of, left.obj, metav1.DeletePropagationBackground); err != nil {
			return err
		}
		if left.of != namespaces {
			continue
		}
		if err := s.releaseAll(ctx, left.obj.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// releaseAll lets go of what is held in a namespace, some time after another.
func (s *story) releaseAll(ctx context.Context, namespace string) error {
	for _, of := range samples() {
		var list *unstructured.UnstructuredList
		_, err := s.until(ctx, func(ctx context.Context, client dynamic.Interface) (err error) {
			list, err = in(client, of.of, namespace).List(ctx, metav1.ListOptions{})
			return err
		})
		if err != nil {
			return err
		}
		for i := range list.Items {
			if !slices.Contains(list.Items[i].GetFinalizers(), hold) {
				continue
			}
			s.pause(ctx)
			if err := s.release(ctx, of.of, namespace, list.Items[i].GetName()); err != nil {
				return err
			}
		}
	}
	return nil
}

// some makes objects of all kinds in a namespace, a part of which are held.
func (s *story) some(ctx context.Context, namespace string, number int) (made []leftover, err error) {
	for i := range number {
		of := samples()[s.random.IntN(len(samples()))]
		obj := described(of.of, of.kind, namespace, fmt.Sprintf("object-%d", i), of.content(fmt.Sprint(s.random.Int())))
		if s.chance(20) {
			obj.SetFinalizers([]string{hold})
		}
		created, _, err := s.create(ctx, of.of, obj)
		if err != nil {
			return nil, err
		}
		s.ledger.keep(of.of, created)
		made = append(made, leftover{of.of, created})
	}
	return made, nil
}

// emptying deletes one of two namespaces, and lets go of what is held in it some time after.
func (s *story) emptying(ctx context.Context) error {
	going, err := s.namespace(ctx, "-goes")
	if err != nil {
		return err
	}
	staying, err := s.namespace(ctx, "-stays")
	if err != nil {
		return err
	}
	if _, err = s.some(ctx, staying, 10); err != nil {
		return err
	}
	if _, err := s.some(ctx, going, 15); err != nil {
		return err
	}
	s.pause(ctx)
	namespace, err := s.get(ctx, namespaces, "", going)
	if err != nil {
		return err
	}
	return s.clean(ctx, []leftover{{namespaces, namespace}})
}
