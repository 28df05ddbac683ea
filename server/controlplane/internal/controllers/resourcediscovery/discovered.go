// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcediscovery finds kinds by name, native, custom and aggregated ones, by what the servers say at the moment. It asks only the
// group in question, and remembers nothing.
package resourcediscovery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Kind is one that is served.
type Kind struct {
	schema.GroupVersionResource
	// Name is that of the kind in its group-version.
	Name       string
	Namespaced bool
	verbs      []string
}

// Can tells whether its objects can be asked for with all of the verbs.
func (k *Kind) Can(verbs ...string) bool {
	return !slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(k.verbs, verb) })
}

// Kinds are those that a server lists.
type Kinds struct{ client rest.Interface }

// NewKinds returns the kinds that are known to the server of a discovery client.
func NewKinds(client rest.Interface) Kinds { return Kinds{client} }

// Find returns a kind in the version of its group that comes first, of those that have it, or nil if there is no such kind. An error is
// that somebody did not answer, so that there may be one.
func (k Kinds) Find(ctx context.Context, name schema.GroupResource) (*Kind, error) {
	versions := []string{"v1"}
	if name.Group != "" {
		var err error
		if versions, err = k.versions(ctx, name.Group); err != nil {
			return nil, err
		}
	}
	for _, version := range versions {
		served := schema.GroupVersion{Group: name.Group, Version: version}
		list := &metav1.APIResourceList{}
		found, err := k.get(ctx, pathOf(served), list)
		if err != nil {
			return nil, fmt.Errorf("ask for the kinds of %s: %w", served, err)
		}
		if !found {
			continue
		}
		for _, resource := range list.APIResources {
			if resource.Name == name.Resource {
				return &Kind{served.WithResource(name.Resource), resource.Kind, resource.Namespaced, resource.Verbs}, nil
			}
		}
	}
	return nil, nil
}

// versions lists those of a group, with the one first that clients should use.
func (k Kinds) versions(ctx context.Context, name string) ([]string, error) {
	group := &metav1.APIGroup{}
	if _, err := k.get(ctx, "/apis/"+name, group); err != nil {
		return nil, fmt.Errorf("ask for the versions of %s: %w", name, err)
	}
	var versions []string
	for _, version := range group.Versions {
		if version.Version == group.PreferredVersion.Version {
			versions = slices.Insert(versions, 0, version.Version)
		} else {
			versions = append(versions, version.Version)
		}
	}
	return versions, nil
}

// get tells whether there is such a document.
func (k Kinds) get(ctx context.Context, path string, into any) (bool, error) {
	content, err := k.client.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(content, into)
}

func pathOf(version schema.GroupVersion) string {
	if version.Group == "" {
		return "/api/" + version.Version
	}
	return "/apis/" + version.String()
}
