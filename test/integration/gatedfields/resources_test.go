// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package gatedfields_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/kube-annex/annex/registry/resource"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/integration/gatedfields/server"
)

func claim(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: object{
		"apiVersion": server.ClaimResource.GroupVersion().String(), "kind": "ClusterClaim",
		"metadata": object{"name": name}, "spec": object{"value": "x"},
	}}
}

// whole is a server with a client of the gated resource.
type whole struct {
	*server.Server
	dynamic.ResourceInterface
	discovery *discovery.DiscoveryClient
}

func startWhole(t *testing.T, own bool) whole {
	t.Helper()
	s := server.Start(t, server.Options{Own: map[string]bool{server.Claims: own}})
	client, err := dynamic.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return whole{Server: s, ResourceInterface: client.Resource(server.ClaimResource), discovery: found}
}

// follows waits until the server shows what the feature permits.
func (w whole) follows(t *testing.T, want resource.Permission) {
	t.Helper()
	poll.Eventually(t, waitForAnswers, "the follower has seen the feature", func(context.Context) error {
		if got := w.Follower.Permission(server.Claims); got != want {
			return fmt.Errorf("it is still %s, want %s", got, want)
		}
		return nil
	})
	poll.Eventually(t, waitForAnswers, "discovery has changed", func(context.Context) error {
		if got := w.discovered(t)["aggregated"]; got != (want != resource.Off) {
			return fmt.Errorf("it has the resource: %t", got)
		}
		return nil
	})
}

// discovered tells in which documents the resource is found.
func (w whole) discovered(t *testing.T) map[string]bool {
	t.Helper()
	const list = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	group := "/apis/" + server.ClaimResource.GroupVersion().String()
	out := map[string]bool{}
	for what, document := range map[string]struct{ path, accept string }{
		"aggregated":            {"/apis", "application/json" + list},
		"aggregated, protobuf":  {"/apis", "application/vnd.kubernetes.protobuf" + list},
		"legacy":                {group, "application/json"},
		"legacy, with a slash":  {group + "/", "application/json"},
		"legacy, protobuf":      {group, "application/vnd.kubernetes.protobuf"},
		"legacy, as a table":    {group, "application/yaml"},
		"OpenAPI v2":            {"/openapi/v2", "application/json"},
		"OpenAPI v3":            {"/openapi/v3" + group, "application/json"},
		"OpenAPI v3, old hash":  {"/openapi/v3" + group + "?hash=OLD", "application/json"},
		"the list in OpenAPI":   {"/openapi/v3" + group, "application/json"},
		"the index of versions": {"/apis/" + server.ClaimResource.Group, "application/json"},
	} {
		code, body := w.get(t, document.path, document.accept)
		if code != http.StatusOK {
			t.Errorf("%s: %s is %d", what, document.path, code)
		}
		if what == "the index of versions" {
			if !strings.Contains(body, server.ClaimResource.GroupVersion().String()) {
				t.Errorf("the version is gone with one of its resources: %s", body)
			}
			continue
		}
		if !strings.Contains(body, "clusteridreservations") {
			t.Errorf("%s: a resource that is not gated is missing", what)
		}
		out[what] = strings.Contains(body, "clusterclaims")
	}
	return out
}

func (w whole) get(t *testing.T, path, accept string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.Config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := (&http.Client{Timeout: waitForAnswers}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// uses are all verbs but create, each on an object of its own. None but delete leaves it changed for the next.
func (w whole) uses(ctx context.Context, t *testing.T, name string) map[string]error {
	t.Helper()
	out := map[string]error{}
	_, out["get"] = w.Get(ctx, name, metav1.GetOptions{})
	_, out["list"] = w.List(ctx, metav1.ListOptions{})
	watching, err := w.Watch(ctx, metav1.ListOptions{})
	if out["watch"] = err; err == nil {
		watching.Stop()
	}
	_, out["patch"] = w.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	_, out["apply"] = w.Patch(ctx, name, types.ApplyPatchType, encode(t, claim(name)), metav1.PatchOptions{FieldManager: firstWriter, Force: new(true)})
	current, err := w.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		current = claim(name)
		current.SetResourceVersion("1")
	}
	_, out["put"] = w.Update(ctx, current, metav1.UpdateOptions{})
	_, out["status"] = w.UpdateStatus(ctx, current, metav1.UpdateOptions{})
	out["delete"] = w.Delete(ctx, name, metav1.DeleteOptions{})
	out["deletecollection"] = w.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "nothing=has-it"})
	return out
}

// creations are all ways to create.
func (w whole) creations(ctx context.Context, t *testing.T, name string, dry bool) map[string]error {
	t.Helper()
	out := map[string]error{}
	_, out["create"] = w.Create(ctx, claim(name+"-create"), metav1.CreateOptions{DryRun: dryRun(dry)})
	_, out["put"] = w.Update(ctx, claim(name+"-put"), metav1.UpdateOptions{DryRun: dryRun(dry)})
	_, out["apply"] = w.Patch(ctx, name+"-apply", types.ApplyPatchType, encode(t, claim(name+"-apply")), patchOptions(firstWriter, dry))
	return out
}

// TestGatedResource takes a resource through the states of its feature and back.
func TestGatedResource(t *testing.T) {
	t.Parallel()
	w := startWhole(t, true)
	w.follows(t, resource.Permitted)
	fine := func(err error) bool { return err == nil }
	for i, step := range []struct {
		name   string
		change func()
		want   resource.Permission
		create func(error) bool
	}{
		{"own gate on", func() {}, resource.Permitted, fine},
		{"on", func() { setState(t, w.Server, server.Claims, on) }, resource.Permitted, fine},
		{"turning off", func() { setState(t, w.Server, server.Claims, turningOff) }, resource.TurningOff, apierrors.IsForbidden},
		{"awaiting confirmation", func() { setState(t, w.Server, server.Claims, turningOff, "ClearCollection AwaitingConfirmation") }, resource.Unconfirmed, apierrors.IsForbidden},
		{"off", func() { setState(t, w.Server, server.Claims, off) }, resource.Off, apierrors.IsNotFound},
		{"preparing", func() { setState(t, w.Server, server.Claims, turningOn, "InstallCRD") }, resource.Off, apierrors.IsNotFound},
		{"waiting for uses", func() { setState(t, w.Server, server.Claims, turningOn, "WaitForUses") }, resource.Permitted, fine},
		{"on again", func() { setState(t, w.Server, server.Claims, on) }, resource.Permitted, fine},
	} {
		name := fmt.Sprintf("claim-%d", i)
		there := step.want == resource.Permitted
		if !there {
			// What exists was made while it could be.
			setState(t, w.Server, server.Claims, on)
			w.follows(t, resource.Permitted)
			if _, err := w.Create(t.Context(), claim(name), metav1.CreateOptions{}); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		step.change()
		if there {
			w.follows(t, step.want)
			if _, err := w.Create(t.Context(), claim(name), metav1.CreateOptions{}); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
		}
		// That it cannot be created any more is the store's verdict, which holds before the change is seen.
		for _, dry := range []bool{true, false} {
			for how, err := range w.creations(t.Context(), t, name, dry) {
				if !step.create(err) {
					t.Errorf("%s: %s (dry run: %t): got %v", step.name, how, dry, err)
				}
				if apierrors.IsForbidden(err) && !strings.Contains(err.Error(), server.Namespace+"/"+server.Claims) {
					t.Errorf("%s: %s: got %v, want a reason that names the Feature", step.name, how, err)
				}
			}
		}
		w.follows(t, step.want)
		for document, has := range w.discovered(t) {
			if has != (step.want != resource.Off) {
				t.Errorf("%s: %s has the resource: %t", step.name, document, has)
			}
		}
		for verb, err := range w.uses(t.Context(), t, name) {
			if step.want == resource.Off && !apierrors.IsNotFound(err) || step.want != resource.Off && err != nil {
				t.Errorf("%s: %s: got %v", step.name, verb, err)
			}
		}
	}
}

// TestWatchesEndWithTheResource turns a feature off while somebody watches.
func TestWatchesEndWithTheResource(t *testing.T) {
	t.Parallel()
	w := startWhole(t, false)
	setState(t, w.Server, server.Claims, on)
	w.follows(t, resource.Permitted)
	watching, err := w.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	if _, err = w.Create(t.Context(), claim("first"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := <-watching.ResultChan(); event.Type != "ADDED" {
		t.Fatalf("got %v", event)
	}
	setState(t, w.Server, server.Claims, turningOff)
	w.follows(t, resource.TurningOff)
	if err = w.Delete(t.Context(), "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if event := <-watching.ResultChan(); event.Type != "DELETED" {
		t.Fatalf("got %v", event)
	}
	setState(t, w.Server, server.Claims, off)
	for event := range watching.ResultChan() {
		if event.Type == "ADDED" || event.Type == "MODIFIED" {
			t.Errorf("got %v of a resource that is off", event)
		}
	}
}
