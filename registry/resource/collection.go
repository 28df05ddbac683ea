// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// collectionPage is the number of objects that are listed at once where the client sets no limit.
const collectionPage = 500

// DeleteCollection deletes the objects of a list. The store's own method would run again as a whole when one of them changes meanwhile, and
// then delete others beyond the limit, and return only what was left.
func (g *guardedStore[T]) DeleteCollection(ctx context.Context, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	if list == nil {
		list = &metainternalversion.ListOptions{}
	}
	list = list.DeepCopy()
	limited := list.Limit > 0
	if !limited {
		list.Limit = collectionPage
	}
	var first runtime.Object
	var deleted []runtime.Object
	for {
		page, err := g.store.List(ctx, list)
		if err != nil {
			return nil, err
		}
		items, err := meta.ExtractList(page)
		if err != nil {
			return nil, err
		}
		if err = g.deleteAll(ctx, items, validate, options); err != nil {
			return nil, err
		}
		if limited {
			return page, nil
		}
		if deleted = append(deleted, items...); first == nil {
			first = page
		}
		accessor, err := meta.ListAccessor(page)
		if err != nil {
			return nil, err
		}
		if accessor.GetContinue() == "" {
			return first, meta.SetList(first, deleted)
		}
		list.Continue, list.ResourceVersion, list.ResourceVersionMatch = accessor.GetContinue(), "", ""
	}
}

// deleteAll deletes objects with as many workers as the store has. A worker ends with its first error; the others continue.
func (g *guardedStore[T]) deleteAll(ctx context.Context, items []runtime.Object, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) error {
	queue := make(chan runtime.Object, len(items))
	for _, item := range items {
		queue <- item
	}
	close(queue)
	workers := max(1, g.store.DeleteCollectionWorkers)
	errs := make(chan error, workers)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			defer utilruntime.HandleCrashWithContext(ctx, func(_ context.Context, reason any) { errs <- fmt.Errorf("delete a collection: panic: %v", reason) })
			for item := range queue {
				if err := ctx.Err(); err != nil {
					errs <- err
					return
				}
				if _, _, err := g.Delete(ctx, nameOf(item), validate, options); err != nil && !apierrors.IsNotFound(err) {
					errs <- err
					return
				}
			}
		})
	}
	running.Wait()
	close(errs)
	return <-errs
}
