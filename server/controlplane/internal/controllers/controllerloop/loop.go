// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllerloop is what controllers have in common that bring one thing at a time into order: events name it, a queue holds it
// once however often it is named, and what fails is tried again later.
package controllerloop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// firstRetry and lastRetry bound how soon what has failed is tried again.
	firstRetry = 50 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Loop brings things into order. Its informers are those of others, who start them.
type Loop struct {
	// Name is what the queue is called in metrics, and the loop in the log.
	Name string
	// Workers is how many things are worked on at once; 0 means one.
	Workers int
	// Sources name what is to be looked at.
	Sources []Source
	// Reconcile brings one thing into order; it has to be idempotent. It runs when all sources have told what there is.
	Reconcile func(ctx context.Context, key string) error
	// Background, if there is one, runs for as long as the loop and may name things as well.
	Background func(ctx context.Context, name func(key string))
}

// Source names things by the objects of an informer.
type Source struct {
	Informer cache.SharedIndexInformer
	// Keys returns what is to be looked at when the object was added, changed or removed.
	Keys func(obj any) []string
}

// Run works until the context ends.
func (l Loop) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: l.Name})
	var running sync.WaitGroup
	defer running.Wait()
	defer queue.ShutDown()
	var synced []cache.InformerSynced
	for _, source := range l.Sources {
		registration, err := source.Informer.AddEventHandler(leadership.EventHandler(ctx, source.handler(queue)))
		if err != nil {
			return fmt.Errorf("follow the objects of %s: %w", l.Name, err)
		}
		defer func() { _ = source.Informer.RemoveEventHandler(registration) }()
		synced = append(synced, registration.HasSynced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	for range max(l.Workers, 1) {
		leadership.Go(ctx, &running, func() { l.work(ctx, queue) })
	}
	if l.Background != nil {
		leadership.Go(ctx, &running, func() { l.Background(ctx, queue.Add) })
	}
	<-ctx.Done()
	return nil
}

func (s Source) handler(queue workqueue.TypedInterface[string]) cache.ResourceEventHandlerFuncs {
	name := func(obj any) {
		if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = missed.Obj
		}
		for _, key := range s.Keys(obj) {
			queue.Add(key)
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: name, UpdateFunc: func(_, obj any) { name(obj) }, DeleteFunc: name}
}

func (l Loop) work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string]) {
	reconcile := func(ctx context.Context, key string) (time.Duration, error) { return 0, l.Reconcile(ctx, key) }
	workloop.Run(ctx, queue, reconcile, func(key string, err error) {
		klog.FromContext(ctx).V(2).Info("Could not bring it into order; trying again", "queue", l.Name, "key", key, "reason", err.Error())
	})
}
