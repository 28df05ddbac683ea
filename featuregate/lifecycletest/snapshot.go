// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycletest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

// snapshot is what there is at one time, by where it is, as JSON in one way of writing.
type snapshot struct {
	objects, stored, published map[string]string
}

// Exclusion is something that may differ between two moments without having to do with features.
type Exclusion struct {
	// Why says so to those who wonder.
	Why string
	// Apply takes it out of an object, and returns false to leave out the object.
	Apply func(object *unstructured.Unstructured) bool
}

// always is what differs between any two moments, on any server.
func always() []Exclusion {
	return []Exclusion{
		{Why: "Leases are renewed, and begin and end with processes", Apply: isNot("coordination.k8s.io", "Lease")},
		{Why: "Events tell what happened, not what is", Apply: isNot("", "Event")},
		{Why: "Events tell what happened, not what is", Apply: isNot("events.k8s.io", "Event")},
		{Why: "what is asked for in passing is not stored", Apply: isNot(v1alpha1.GroupName, "FeatureReport")},
		{Why: "each write is another version, even one that goes back to what was", Apply: drop("metadata.resourceVersion", "metadata.generation", "status.observedGeneration")},
		{Why: "the owners of fields are compared, but not when they came to be that", Apply: dropTimes},
		{Why: "whether the aggregator reaches a server changes with its restarts", Apply: dropOf("apiregistration.k8s.io", "APIService", "status")},
		{Why: "a Feature tells who uses it and how it went, and the test wishes for its value; its state is compared", Apply: onlyState},
	}
}

func isNot(group, kind string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool { return !is(object, group, kind) }
}

func is(object *unstructured.Unstructured, group, kind string) bool {
	gvk := object.GroupVersionKind()
	return gvk.Group == group && gvk.Kind == kind
}

func drop(paths ...string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		for _, path := range paths {
			unstructured.RemoveNestedField(object.Object, strings.Split(path, ".")...)
		}
		return true
	}
}

func dropOf(group, kind string, paths ...string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		return !is(object, group, kind) || drop(paths...)(object)
	}
}

func dropTimes(object *unstructured.Unstructured) bool {
	managers, _, err := unstructured.NestedSlice(object.Object, "metadata", "managedFields")
	if err != nil || len(managers) == 0 {
		return true
	}
	for _, manager := range managers {
		if entry, ok := manager.(map[string]any); ok {
			delete(entry, "time")
		}
	}
	// Entries are ordered by time.
	slices.SortFunc(managers, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return unstructured.SetNestedSlice(object.Object, managers, "metadata", "managedFields") == nil
}

func onlyState(object *unstructured.Unstructured) bool {
	if !is(object, v1alpha1.GroupName, "Feature") {
		return true
	}
	state, found, _ := unstructured.NestedString(object.Object, "status", "state")
	delete(object.Object, "status")
	// Who wrote the status and the wish owns what is there now.
	drop("metadata.managedFields", "spec.desired")(object)
	if found {
		object.Object["state"] = state
	}
	return true
}

func (r *runner) exclude(object *unstructured.Unstructured) bool {
	for _, exclusion := range r.exclusions {
		if !exclusion.Apply(object) {
			return false
		}
	}
	return true
}

func (r *runner) snapshot(ctx context.Context) (s snapshot, err error) {
	if s.objects, err = r.objects(ctx); err != nil {
		return s, err
	}
	if s.stored, err = r.stored(ctx); err != nil {
		return s, err
	}
	s.published, err = r.published(ctx)
	return s, err
}

// objects lists everything.
func (r *runner) objects(ctx context.Context) (map[string]string, error) {
	_, lists, err := r.clients.discovery.ServerGroupsAndResourcesWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out what the API serves: %w", err)
	}
	out := map[string]string{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			if strings.Contains(resource.Name, "/") || !slices.Contains(resource.Verbs, "list") {
				continue
			}
			if err := r.list(ctx, version.WithResource(resource.Name), out); err != nil {
				return nil, fmt.Errorf("list %s: %w", resource.Name, err)
			}
		}
	}
	return out, nil
}

func (r *runner) list(ctx context.Context, resource schema.GroupVersionResource, into map[string]string) error {
	options := metav1.ListOptions{Limit: 500}
	for {
		page, err := r.clients.dynamic.Resource(resource).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			object := &page.Items[i]
			key := strings.Join([]string{resource.GroupVersion().String(), resource.Resource, object.GetNamespace(), object.GetName()}, "/")
			if !r.exclude(object) {
				continue
			}
			if into[key], err = text(object.Object); err != nil {
				return err
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// text writes a value in the one way in which all are compared.
func text(value any) (string, error) {
	out, err := json.Marshal(value)
	return string(out), err
}

// stored asks the server what it stores. What is no object is compared as it is.
func (r *runner) stored(ctx context.Context) (map[string]string, error) {
	all, err := r.server.Stored(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out what is stored: %w", err)
	}
	out := map[string]string{}
	for key, value := range all {
		object := &unstructured.Unstructured{}
		switch err := json.Unmarshal(value, &object.Object); {
		case err != nil:
			out[key] = string(value)
		case r.exclude(object):
			if out[key], err = text(object.Object); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// published reads OpenAPI, in both versions. The address of a document of version 3 has a hash of it, so none is read twice.
func (r *runner) published(ctx context.Context) (map[string]string, error) {
	read := func(path string) ([]byte, error) {
		body, err := r.clients.discovery.RESTClient().Get().RequestURI(path).DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		return body, nil
	}
	v2, err := read("/openapi/v2")
	if err != nil {
		return nil, err
	}
	v3, err := read("/openapi/v3")
	if err != nil {
		return nil, err
	}
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string } `json:"paths"`
	}
	if err = json.Unmarshal(v3, &index); err != nil {
		return nil, fmt.Errorf("read /openapi/v3: %w", err)
	}
	if r.v2.read != string(v2) {
		if r.v2.compared, err = withoutMerged(v2); err != nil {
			return nil, err
		}
		r.v2.read = string(v2)
	}
	out := map[string]string{"/openapi/v2": r.v2.compared}
	for path, at := range index.Paths {
		document, known := r.documents[at.ServerRelativeURL]
		if !known {
			body, err := read(at.ServerRelativeURL)
			if err != nil {
				return nil, err
			}
			document = string(body)
			r.documents[at.ServerRelativeURL] = document
		}
		out["/openapi/v3/"+path] = document
	}
	return out, nil
}

// withoutMerged takes out of an OpenAPI v2 document what depends on the order in which the aggregator has merged the parts: of definitions
// that several parts have, such as DeleteOptions, only one part's list of kinds is kept.
func withoutMerged(document []byte) (string, error) {
	var spec map[string]any
	if err := json.Unmarshal(document, &spec); err != nil {
		return "", fmt.Errorf("read /openapi/v2: %w", err)
	}
	definitions, _ := spec["definitions"].(map[string]any)
	for name := range definitions {
		if strings.Contains(name, "apimachinery.pkg.apis.meta.") {
			unstructured.RemoveNestedField(spec, "definitions", name, "x-kubernetes-group-version-kind")
		}
	}
	return text(spec)
}
