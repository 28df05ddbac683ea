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
	// DefaultPageSize is how many objects are read at a time.
	DefaultPageSize = 500

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
	// Limiter is asked before each request; nil sets no limit.
	Limiter flowcontrol.RateLimiter
	// PageSize defaults to DefaultPageSize.
	PageSize int64
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

// Clear clears the field everywhere, beginning where the earlier progress ended. It returns how far it came, also with an error.
func Clear(ctx context.Context, options Options, from Progress) (Progress, error) {
	limit := options.PageSize
	if limit <= 0 {
		limit = DefaultPageSize
	}
	for progress := from; ; {
		page, err := options.list(ctx, limit, progress.Continue)
		if err != nil {
			return progress, fmt.Errorf("list %s: %w", options.Field.Kind.Kind, err)
		}
		next := progress
		for i := range page.Items {
			object := &page.Items[i]
			next.Seen++
			if !isSet(object.Object, options.Field) {
				continue
			}
			if err = options.clear(ctx, object.GetNamespace(), object.GetName()); err != nil {
				return progress, fmt.Errorf("clear %s %s/%s: %w", options.Field.Kind.Kind, object.GetNamespace(), object.GetName(), err)
			}
			next.Cleared++
		}
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

// list reads a page. The server forgets where a page ended after a few minutes, and then offers to go on from there in what is stored
// now, which is as good: nothing that has appeared meanwhile can have the field.
func (o Options) list(ctx context.Context, limit int64, from string) (page *unstructured.UnstructuredList, err error) {
	err = o.try(ctx, func() error {
		page, err = o.Client.List(ctx, metav1.ListOptions{Limit: limit, Continue: from})
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
	return o.try(ctx, func() error {
		out, err := client.Patch(ctx, name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: fieldManager}, subresources...)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil && isSet(out.Object, o.Field):
			return ErrStillSet
		}
		return err
	})
}

// try repeats what others or the server's load stand in the way of.
func (o Options) try(ctx context.Context, request func() error) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8}, func(ctx context.Context) (bool, error) {
		if o.Limiter != nil {
			if err := o.Limiter.Wait(ctx); err != nil {
				return false, err
			}
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

func passing(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsResourceExpired(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}

// isSet tells whether an object has a gated field anywhere.
func isSet(object map[string]any, field gatedfield.Field) bool {
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
