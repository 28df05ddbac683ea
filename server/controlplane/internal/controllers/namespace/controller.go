// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// Requests of all deletions together are limited, so that many of them leave room for others.
	requestsPerSecond = 200
	requestBurst      = 400
	// firstRetry and lastRetry bound how soon a namespace is looked at again that could not be emptied.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
	// workers is how many namespaces are emptied at once.
	workers = 10
)

// Controller empties and releases namespaces that are being deleted.
type Controller struct {
	informer   cache.SharedIndexInformer
	lister     listers.NamespaceLister
	namespaces typedcorev1.NamespaceInterface
	content    content
	kinds      *kinds
	settle     time.Duration

	mu sync.Mutex
	// seen tells since when a namespace has been known to terminate, by its uid.
	seen map[types.UID]time.Time
}

// New returns a controller that follows the informer, which others start, and does its work with clients of the configuration. A
// namespace is let go no sooner than settle after its deletion was seen.
func New(config *rest.Config, informer informers.NamespaceInformer, settle time.Duration) (*Controller, error) {
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestBurst)
	// That a version is deprecated is nothing to tell whoever deletes a namespace.
	config.WarningHandler, config.WarningHandlerWithContext = rest.NoWarnings{}, nil
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up requests about namespaces: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make the client for namespaces: %w", err)
	}
	objects, err := metadata.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make the client for what is in namespaces: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make the discovery client: %w", err)
	}
	return &Controller{
		informer: informer.Informer(), lister: informer.Lister(), namespaces: client.CoreV1().Namespaces(),
		content: content{objects}, kinds: newKinds(discoverer, objects), settle: settle, seen: map[types.UID]time.Time{},
	}, nil
}

// Run empties namespaces until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "namespace_deletion"})
	registration, err := c.informer.AddEventHandler(leadership.EventHandler(ctx, cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { c.enqueue(queue, nil, obj.(*corev1.Namespace)) },
		UpdateFunc: func(old, obj any) {
			c.enqueue(queue, old.(*corev1.Namespace), obj.(*corev1.Namespace))
		},
		DeleteFunc: c.forget,
	}))
	if err != nil {
		queue.ShutDown()
		return fmt.Errorf("follow namespaces: %w", err)
	}
	defer func() { _ = c.informer.RemoveEventHandler(registration) }()
	var working sync.WaitGroup
	for range workers {
		leadership.Go(ctx, &working, func() {
			workloop.Run(ctx, queue, c.attempt, func(name string, err error) {
				klog.FromContext(ctx).V(2).Info("Namespace cannot be let go yet; trying again", "namespace", name, "reason", err.Error())
			})
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	working.Wait()
	return nil
}

// enqueue has a namespace emptied once its deletion, or another one's giving up of it, is seen. Conditions are our own.
func (c *Controller) enqueue(queue workqueue.TypedRateLimitingInterface[string], old, ns *corev1.Namespace) {
	if ns.DeletionTimestamp == nil {
		return
	}
	c.since(ns.UID)
	if old != nil && old.DeletionTimestamp != nil && old.UID == ns.UID &&
		len(old.Finalizers) == len(ns.Finalizers) && len(old.Spec.Finalizers) == len(ns.Spec.Finalizers) {
		return
	}
	queue.Add(ns.Name)
}

// since returns when the deletion of a namespace was first seen. It goes by this process's clock alone.
func (c *Controller) since(uid types.UID) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	first, ok := c.seen[uid]
	if !ok {
		first = time.Now()
		c.seen[uid] = first
	}
	return first
}

func (c *Controller) forget(obj any) {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	if ns, ok := obj.(*corev1.Namespace); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.seen, ns.UID)
	}
}
