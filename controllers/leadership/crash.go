// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// errCrashed is the result of a call that panicked.
var errCrashed = errors.New("panicked; the term has ended")

// crashKey is the context key of the function that ends the term of a runnable after a panic.
type crashKey struct{}

// handleCrash is deferred. It recovers a panic and ends the term of the context. Without a term the panic goes on.
func handleCrash(ctx context.Context) {
	crash, ok := ctx.Value(crashKey{}).(func(error))
	if !ok {
		return
	}
	if value := recover(); value != nil {
		crash(crashError(value))
	}
}

// crashError returns the error for a recovered panic, with the stack of the goroutine.
func crashError(value any) error { return fmt.Errorf("panic: %v\n%s", value, debug.Stack()) }

// Go runs f in a goroutine of the wait group. A panic in f ends the term of the context, not the process.
func Go(ctx context.Context, running *sync.WaitGroup, f func()) {
	running.Go(func() {
		defer handleCrash(ctx)
		f()
	})
}

// Call calls f. A panic in f ends the term of the context, not the process, and is returned as an error, so that nobody takes the work
// for done.
func Call(ctx context.Context, f func(context.Context) error) (err error) {
	err = errCrashed
	defer handleCrash(ctx)
	return f(ctx)
}

// EventHandler returns a handler that calls the given one. A panic in an informer's goroutine ends the term of the context, not the process.
func EventHandler(ctx context.Context, handler cache.ResourceEventHandler) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInInitialList bool) {
			defer handleCrash(ctx)
			handler.OnAdd(obj, isInInitialList)
		},
		UpdateFunc: func(oldObj, newObj any) {
			defer handleCrash(ctx)
			handler.OnUpdate(oldObj, newObj)
		},
		DeleteFunc: func(obj any) {
			defer handleCrash(ctx)
			handler.OnDelete(obj)
		},
	}
}
