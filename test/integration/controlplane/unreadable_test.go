// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/controlplane"
)

// editors may do everything in all groups but delete unsafely.
func editors(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetUser().GetName() == "editor" && a.GetVerb() != "unsafe-delete-ignore-read-errors" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// heard collects the warnings of a client.
type heard struct {
	mu       sync.Mutex
	warnings []string
}

func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

// take returns what was heard since it was called last.
func (h *heard) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.warnings = nil }()
	return strings.Join(h.warnings, "\n")
}

func TestUnreadableObjects(t *testing.T) {
	t.Parallel()
	h := startHost(t, func(o *controlplane.Options) {
		o.Authorizers = []authorizer.Authorizer{authorizer.AuthorizerFunc(editors)}
	})
	createWidgetDefinition(t, h.Admin())
	widget := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}
	event := map[string]any{"apiVersion": "v1", "kind": "Event", "involvedObject": map[string]any{"namespace": "default"}}
	for name, tc := range map[string]struct {
		resource schema.GroupVersionResource
		// other serves the same objects, if another group does.
		other  schema.GroupVersionResource
		object map[string]any
		// key is the namespace's in etcd.
		key string
	}{
		"native": {
			resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			object:   map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, key: "/registry/core/configmaps/default/",
		},
		"cohabitating": {
			resource: schema.GroupVersionResource{Version: "v1", Resource: "events"},
			other:    schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}, object: event, key: "/registry/core/events/default/",
		},
		"custom": {resource: widgets, object: widget, key: "/registry/example.com/widgets/default/"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.other.Empty() {
				tc.other = tc.resource
			}
			u := unreadables{t: t, h: h, told: &heard{}, key: tc.key}
			u.kind = u.as(h.Admin(), tc.resource)
			u.other = u.as(h.Admin(), tc.other)
			u.editor = u.as(h.As("editor"), tc.other)
			u.check(tc.object)
		})
	}
}

// unreadables checks one kind.
type unreadables struct {
	t                   *testing.T
	h                   *host
	told                *heard
	key                 string
	kind, other, editor dynamic.ResourceInterface
}

func (u *unreadables) as(config *rest.Config, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	config.WarningHandlerWithContext = u.told
	return anything(u.t, config).Resource(resource).Namespace("default")
}

func (u *unreadables) check(object map[string]any) {
	ctx := u.t.Context()
	for _, name := range []string{"a", "b", "c"} {
		eventually(u.t, func() error { // Its definition may not be established yet.
			made := (&unstructured.Unstructured{Object: object}).DeepCopy()
			made.SetName(name)
			_, err := u.kind.Create(ctx, made, metav1.CreateOptions{})
			return err
		})
	}
	before := must[*unstructured.UnstructuredList](u.t)(u.other.List(ctx, metav1.ListOptions{}))
	changes := must[watch.Interface](u.t)(u.other.Watch(ctx, metav1.ListOptions{ResourceVersion: before.GetResourceVersion()}))
	defer changes.Stop()
	if _, err := u.h.Backend.Client.Put(ctx, u.key+"b", "k8s\x00 and then nonsense"); err != nil {
		u.t.Fatal(err)
	}
	u.wantChange(changes, watch.Deleted, "b")
	u.told.take()
	for what, objects := range map[string]dynamic.ResourceInterface{"": u.kind, " in the other group": u.other} {
		for how, options := range map[string]metav1.ListOptions{"": {}, " from the cache": {ResourceVersion: "0"}, " in pages": {Limit: 500}} {
			u.wantNames("listed"+what+how, objects, options, "a", "c")
			if told := u.told.take(); !strings.Contains(told, u.key+"b") {
				u.t.Errorf("the list%s%s does not tell what it leaves out: %q", what, how, told)
			}
		}
		_, err := objects.Get(ctx, "b", metav1.GetOptions{})
		u.wantUndecodable("reading the broken object"+what, err)
	}
	u.checkWrites()

	unsafely := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}
	if err := u.editor.Delete(ctx, "b", unsafely); !apierrors.IsForbidden(err) {
		u.t.Errorf("deleting unsafely without the right: got %v, want 403", err)
	}
	if err := u.other.Delete(ctx, "c", unsafely); err == nil {
		u.t.Error("an intact object was deleted unsafely")
	}
	if err := u.other.Delete(ctx, "b", unsafely); err != nil {
		u.t.Errorf("deleting unsafely: %v", err)
	}
	if err := u.kind.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		u.t.Errorf("deleting another object: %v", err)
	}
	u.wantChange(changes, watch.Deleted, "a")
	u.told.take()
	u.wantNames("after the deletion", u.kind, metav1.ListOptions{}, "c")
	if told := u.told.take(); told != "" {
		u.t.Errorf("the list still warns: %q", told)
	}
}

// checkWrites tries what would touch the broken object.
func (u *unreadables) checkWrites() {
	ctx := u.t.Context()
	_, err := u.kind.Patch(ctx, "b", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	u.wantUndecodable("patching the broken object", err)
	u.wantUndecodable("deleting the broken object as any other", u.kind.Delete(ctx, "b", metav1.DeleteOptions{}))
	if err := u.kind.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); apierrors.ReasonForError(err) != metav1.StatusReasonStoreReadError || !strings.Contains(err.Error(), u.key+"b") {
		u.t.Errorf("deleting all of them: got %v, want an error that names the key", err)
	}
	if _, err := u.kind.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		u.t.Errorf("patching another object: %v", err)
	}
}

func (u *unreadables) wantUndecodable(what string, err error) {
	u.t.Helper()
	if err == nil || !strings.Contains(err.Error(), "object not decodable") {
		u.t.Errorf("%s: got %v, want an error that says what is wrong with it", what, err)
	}
}

func (u *unreadables) wantNames(when string, objects dynamic.ResourceInterface, options metav1.ListOptions, want ...string) {
	u.t.Helper()
	list, err := objects.List(u.t.Context(), options)
	if err != nil {
		u.t.Errorf("%s: %v", when, err)
		return
	}
	var names []string
	for _, item := range list.Items {
		// The namespace has a ConfigMap of every control plane.
		if name := item.GetName(); len(name) == 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(want, names); diff != "" {
		u.t.Errorf("%s (-want,+got):\n%s", when, diff)
	}
}

func (u *unreadables) wantChange(changes watch.Interface, want watch.EventType, name string) {
	u.t.Helper()
	eventually(u.t, func() error {
		select {
		case change, open := <-changes.ResultChan():
			if !open {
				u.t.Fatalf("the watch has ended before it told of %s %s", want, name)
			}
			object, _ := change.Object.(*unstructured.Unstructured)
			if change.Type == want && object.GetName() == name {
				return nil
			}
			return fmt.Errorf("the watch told of %s %v", change.Type, change.Object)
		default:
			return errors.New("the watch tells of nothing")
		}
	})
}

// TestUnreadableObjectsDoNotKeepItFromStarting breaks an object of every kind that something waits for at the start.
func TestUnreadableObjectsDoNotKeepItFromStarting(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	createWidgetDefinition(t, h.Admin())
	keys := []string{
		"core/namespaces/broken", "core/configmaps/kube-system/broken", "core/secrets/default/broken", "core/events/default/broken", "coordination.k8s.io/leases/default/broken",
		"apiextensions.k8s.io/customresourcedefinitions/broken.example.com", "apiregistration.k8s.io/apiservices/v1.broken.example.com", "example.com/widgets/default/broken",
		"flowcontrol.apiserver.k8s.io/flowschemas/broken",
	}
	for _, key := range keys {
		if _, err := h.Backend.Client.Put(t.Context(), "/registry/"+key, "k8s\x00 and then nonsense"); err != nil {
			t.Fatal(err)
		}
	}
	h.Stop()
	h.Start()
	config := h.Admin()
	told := &heard{}
	config.WarningHandlerWithContext = told
	client := core(t, config)
	if _, err := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	eventually(t, func() error {
		_, err := anything(t, config).Resource(widgets).Namespace("default").List(t.Context(), metav1.ListOptions{})
		return err
	})
	if _, err := definitions(t, config).ApiextensionsV1().CustomResourceDefinitions().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := services(t, config).ApiregistrationV1().APIServices().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	warnings := told.take()
	for _, key := range []string{"/registry/example.com/widgets/default/broken", "customresourcedefinitions/broken.example.com", "apiservices/v1.broken.example.com"} {
		if !strings.Contains(warnings, key) {
			t.Errorf("no list tells of %s: %q", key, warnings)
		}
	}
}

// TestUnreadablePoliciesHoldWritesUp has a policy that cannot be read not be taken for none.
func TestUnreadablePoliciesHoldWritesUp(t *testing.T) {
	t.Parallel()
	h := startHost(t, nil)
	resource := schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	policies := anything(t, h.Admin()).Resource(resource)
	if _, err := h.Backend.Client.Put(t.Context(), "/registry/admissionregistration.k8s.io/validatingadmissionpolicies/broken", "k8s\x00 and then nonsense"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if _, err := policies.List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), "broken") {
			return fmt.Errorf("listing policies: got %w, want an error that names the broken one", err)
		}
		return nil
	})
	if err := policies.Delete(t.Context(), "broken", metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: ptr.To(true)}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := policies.List(t.Context(), metav1.ListOptions{})
		return err
	})
}
