// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clearfield takes a gated field out of everything that is stored.
//
// While a feature is TurningOff its server drops the field from any write, so an object is rid of it as soon as it is written
// at all. Clear writes those that have it, each with a merge patch that says nothing, and leaves all others alone. It is a
// client like any other, and can be stopped at any time and resumed where it was.
package clearfield

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kube-annex/annex/apis/gatedfield"
)

const (
	// DefaultPageSize is how many objects are read at a time without a limiter.
	DefaultPageSize = 500
	// DefaultWorkers is how many objects are written at a time without a limiter.
	DefaultWorkers = 16
	// limitedPageSize and limitedWorkers are the same with one. They are small: users shall not have to wait for a long list, and at a
	// server that is busy this work shall become slow rather than theirs.
	limitedPageSize = 100
	limitedWorkers  = 2
	// objectsAsRequest is how many objects cost a server as much to list as one request.
	objectsAsRequest = 20
	// stillSetTries is how often an object is written that still has the field. Writing nothing is not compared with the state of the
	// feature, so a replica that has not seen yet that it is TurningOff keeps the field.
	stillSetTries = 5

	fieldManager = "annex-clear-field"
	statusName   = "status"
)

// Options say what is cleared and how fast.
type Options struct {
	// Client reads and patches all objects of the kind, in all namespaces. Every object that is written comes with a warning of the
	// server, so its configuration should have rest.NoWarnings.
	Client dynamic.NamespaceableResourceInterface
	// Field is what is cleared.
	Field gatedfield.Field
	// Limiter is asked before each request, and as often before a list as what it reads is worth; nil sets no limit.
	Limiter flowcontrol.RateLimiter
	// PageSize is how many objects are read at a time, and Workers how many are written at a time. They default to DefaultPageSize and
	// DefaultWorkers, and to less with a Limiter.
	PageSize int64
	Workers  int
	// Progress is called after each page; an error of it ends the work. Nil is not called.
	Progress func(context.Context, Progress) error
}

// Progress is how far the work is.
type Progress struct {
	// Continue is where to go on; empty is the beginning, and the end.
	Continue string
	// Seen and Cleared count objects that were read, and that had the field.
	Seen, Cleared int64
	// Remaining is how many there are still to read, if the server knows.
	Remaining *int64
}

// ErrStillSet is returned when an object still has the field after it was written: the feature is not TurningOff for the server that
// wrote it.
var ErrStillSet = errors.New("the server kept the field; it drops it only while the feature is TurningOff")

// errAgain has a request repeated.
var errAgain = apierrors.NewServiceUnavailable(ErrStillSet.Error())

// Clear clears the field everywhere, beginning where the earlier progress ended. It returns how far it came, also with an error.
func Clear(ctx context.Context, options Options, from Progress) (Progress, error) {
	options.complete()
	for progress := from; ; {
		page, err := options.list(ctx, progress.Continue)
		if err != nil {
			return progress, fmt.Errorf("list %s: %w", options.Field.Kind.Kind, err)
		}
		next := progress
		cleared, err := options.clearAll(ctx, page.Items)
		if err != nil {
			return progress, err
		}
		next.Seen, next.Cleared = next.Seen+int64(len(page.Items)), next.Cleared+cleared
		next.Continue, next.Remaining = page.GetContinue(), page.GetRemainingItemCount()
		progress = next
		if options.Progress != nil {
			if err = options.Progress(ctx, progress); err != nil {
				return progress, err
			}
		}
		if progress.Continue == "" {
			return progress, nil
		}
	}
}

func (o *Options) complete() {
	page, workers := int64(DefaultPageSize), DefaultWorkers
	if o.Limiter != nil {
		page, workers = limitedPageSize, limitedWorkers
	}
	if o.PageSize <= 0 {
		o.PageSize = page
	}
	if o.Workers <= 0 {
		o.Workers = workers
	}
}

// clearAll writes those of a page that have the field, and returns how many these are. When it returns, it has no request under way.
func (o Options) clearAll(ctx context.Context, page []unstructured.Unstructured) (int64, error) {
	var having []*unstructured.Unstructured
	for i := range page {
		if IsSet(page[i].Object, o.Field) {
			having = append(having, &page[i])
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var working sync.WaitGroup
	for range min(o.Workers, len(having)) {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(having) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := o.clear(ctx, having[i].GetNamespace(), having[i].GetName()); err != nil {
					// The first error ends the work, and is the one that is returned.
					cancel(fmt.Errorf("clear %s %s/%s: %w", o.Field.Kind.Kind, having[i].GetNamespace(), having[i].GetName(), err))
				}
			}
		})
	}
	working.Wait()
	return int64(len(having)), context.Cause(ctx)
}

// list reads a page. The server forgets where a page ended after a few minutes, and then offers to go on from there in what is stored
// now, which is as good: nothing that has appeared meanwhile can have the field.
func (o Options) list(ctx context.Context, from string) (page *unstructured.UnstructuredList, err error) {
	err = o.try(ctx, listCost(o.PageSize), func() error {
		page, err = o.Client.List(ctx, metav1.ListOptions{Limit: o.PageSize, Continue: from})
		if apierrors.IsResourceExpired(err) {
			from = ""
			if status := apierrors.APIStatus(nil); errors.As(err, &status) {
				from = status.Status().ListMeta.Continue
			}
		}
		return err
	})
	return page, err
}

func (o Options) clear(ctx context.Context, namespace, name string) error {
	var client dynamic.ResourceInterface = o.Client
	if namespace != "" {
		client = o.Client.Namespace(namespace)
	}
	var subresources []string
	if o.Field.Path[0] == statusName {
		subresources = append(subresources, statusName)
	}
	kept := 0
	return o.try(ctx, 1, func() error {
		out, err := client.Patch(ctx, name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil && IsSet(out.Object, o.Field):
			if kept++; kept < stillSetTries {
				return errAgain
			}
			return ErrStillSet
		}
		return err
	})
}

// try repeats what others or the server's load stand in the way of. The request counts as so many.
func (o Options) try(ctx context.Context, cost int64, request func() error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8}, func(ctx context.Context) (bool, error) {
		if err := pay(ctx, o.Limiter, cost); err != nil {
			return false, err
		}
		last = request()
		if last != nil && !passing(last) {
			return false, last
		}
		return last == nil, nil
	})
	if wait.Interrupted(err) && last != nil && ctx.Err() == nil {
		return last
	}
	return err
}

// PayForList asks a limiter as often as a list of so many objects is worth. Nil sets no limit.
func PayForList(ctx context.Context, limiter flowcontrol.RateLimiter, objects int64) error {
	return pay(ctx, limiter, listCost(objects))
}

// listCost is how many requests a list of so many objects counts as.
func listCost(objects int64) int64 { return 1 + objects/objectsAsRequest }

func pay(ctx context.Context, limiter flowcontrol.RateLimiter, cost int64) error {
	for paid := int64(0); limiter != nil && paid < cost; paid++ {
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

func passing(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsResourceExpired(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// IsSet tells whether an object, as JSON has it, has a gated field anywhere.
func IsSet(object map[string]any, field gatedfield.Field) bool {
	return has(object, field, nil)
}

func has(value any, field gatedfield.Field, path []string) bool {
	if value == nil {
		return false
	}
	if len(path) > 0 && field.Covers(path) {
		return true
	}
	switch at := value.(type) {
	case []any:
		below := append(path, gatedfield.EachItem)
		return slices.ContainsFunc(at, func(item any) bool { return has(item, field, below) })
	case map[string]any:
		for name, item := range at {
			if has(item, field, append(path, name)) {
				return true
			}
		}
	}
	return false
}
