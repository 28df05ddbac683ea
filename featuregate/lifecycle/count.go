// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/apis/gatedfield"
	"github.com/kube-annex/annex/featuregate/clearfield"
)

// Kind is a resource whose objects may use a feature.
type Kind struct {
	Resource schema.GroupResource
	// Client reads it, in all namespaces.
	Client dynamic.NamespaceableResourceInterface
	// Uses reports whether an object uses the feature; nil means that all objects do.
	Uses func(object *unstructured.Unstructured) bool
	// Limiter is asked before each page is read, as often as that is worth; nil sets no limit.
	Limiter flowcontrol.RateLimiter
}

// HasAny returns a Uses for the feature that gates the fields.
func HasAny(fields ...gatedfield.Field) func(object *unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		return slices.ContainsFunc(fields, func(field gatedfield.Field) bool { return clearfield.IsSet(object.Object, field) })
	}
}

const (
	countPage   = 500
	maxExamples = 10
)

// CountObjects returns a Count that reads all objects of the kinds.
func CountObjects(kinds ...Kind) Count {
	return func(ctx context.Context) (v1alpha1.DanglingReferences, error) {
		var out v1alpha1.DanglingReferences
		for _, kind := range kinds {
			if err := kind.count(ctx, &out); err != nil {
				return v1alpha1.DanglingReferences{}, err
			}
		}
		return out, nil
	}
}

func (k Kind) count(ctx context.Context, into *v1alpha1.DanglingReferences) error {
	options := metav1.ListOptions{Limit: countPage}
	for {
		if err := clearfield.PayForList(ctx, k.Limiter, options.Limit); err != nil {
			return err
		}
		page, err := k.Client.List(ctx, options)
		if err != nil {
			return fmt.Errorf("list %s: %w", k.Resource, err)
		}
		for i := range page.Items {
			object := &page.Items[i]
			if k.Uses != nil && !k.Uses(object) {
				continue
			}
			into.Count++
			if len(into.Examples) < maxExamples {
				into.Examples = append(into.Examples, v1alpha1.ObjectReference{
					Group: k.Resource.Group, Resource: k.Resource.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
				})
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}
