// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"
)

// pageSize bounds what is held in memory of one kind.
const pageSize = 500

// content is what is in namespaces.
type content struct{ client metadata.Interface }

// left is what there is of one kind in one namespace.
type left struct {
	objects int
	// untouched are those whose deletion has to be asked for.
	untouched  int
	finalizers map[string]int
}

// empty deletes all objects of a kind and returns the numbers of those that remain.
func (c content) empty(ctx context.Context, namespace string, k kind) (left, error) {
	before, err := c.count(ctx, namespace, k)
	if err != nil || before.untouched == 0 {
		return before, err
	}
	if k.collection {
		err = c.client.Resource(k.GroupVersionResource).Namespace(namespace).DeleteCollection(ctx, background(nil), metav1.ListOptions{})
	}
	if !k.collection || absent(err) {
		err = c.each(ctx, namespace, k, func(object *metav1.PartialObjectMetadata) error {
			if !untouched(object) {
				return nil
			}
			failure := c.client.Resource(k.GroupVersionResource).Namespace(namespace).Delete(ctx, object.Name, background(object))
			if absent(failure) || apierrors.IsConflict(failure) {
				return nil
			}
			return failure
		})
	}
	if err != nil {
		return before, fmt.Errorf("delete %s: %w", k.name(), err)
	}
	return c.count(ctx, namespace, k)
}

func (c content) count(ctx context.Context, namespace string, k kind) (left, error) {
	out := left{finalizers: map[string]int{}}
	err := c.each(ctx, namespace, k, func(object *metav1.PartialObjectMetadata) error {
		out.objects++
		if untouched(object) {
			out.untouched++
		}
		for _, finalizer := range object.Finalizers {
			out.finalizers[finalizer]++
		}
		return nil
	})
	if err != nil {
		return left{}, fmt.Errorf("list %s: %w", k.name(), err)
	}
	return out, nil
}

// each visits the metadata of all objects of a kind.
func (c content) each(ctx context.Context, namespace string, k kind, visit func(*metav1.PartialObjectMetadata) error) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := c.client.Resource(k.GroupVersionResource).Namespace(namespace).List(ctx, options)
		if apierrors.IsMethodNotSupported(err) {
			return nil
		}
		if err != nil {
			// Also where the kind is not found: its objects may be served in another version by now, or again soon.
			return err
		}
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return nil
		}
	}
}

// untouched tells whether there is something about an object that its deletion by us would change. A deletion in the background
// takes off the finalizers of the garbage collector, which else waits for, or spares, what goes as well.
func untouched(object *metav1.PartialObjectMetadata) bool {
	return object.DeletionTimestamp == nil || slices.Contains(object.Finalizers, metav1.FinalizerOrphanDependents) ||
		slices.Contains(object.Finalizers, metav1.FinalizerDeleteDependents)
}

// background returns options that delete nothing but the given object.
func background(object *metav1.PartialObjectMetadata) metav1.DeleteOptions {
	options := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if object != nil {
		options.Preconditions = &metav1.Preconditions{UID: &object.UID}
	}
	return options
}

// absent tells that there is no such object, or no such endpoint whatever discovery says.
func absent(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }

// name is what users know a kind by.
func (k kind) name() string { return k.GroupResource().String() }
