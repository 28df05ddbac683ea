// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package workloop repeats the work of controllers: of the keys of a queue, or all of it at once.
package workloop

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Run is one worker. It reconciles keys until the queue is shut down; keys that are left when the context ends are dropped.
//
// A key is queued again after the time that reconcile returns, unless that is zero, and after an error with a growing delay. onError logs
// the error.
func Run[K comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[K],
	reconcile func(ctx context.Context, key K) (time.Duration, error), onError func(key K, err error),
) {
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return
		}
		reconcileOne(ctx, queue, key, reconcile, onError)
	}
}

func reconcileOne[K comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[K], key K,
	reconcile func(context.Context, K) (time.Duration, error), onError func(K, error),
) {
	defer queue.Done(key)
	if ctx.Err() != nil {
		return
	}
	after, err := reconcile(ctx, key)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		onError(key, err)
		queue.AddRateLimited(key)
	} else {
		queue.Forget(key)
	}
	if after > 0 {
		queue.AddAfter(key, after)
	}
}
