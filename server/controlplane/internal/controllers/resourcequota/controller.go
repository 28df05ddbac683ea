// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcequota

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
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
	"github.com/kube-annex/annex/server/controlplane/internal/controllers/resourcediscovery"
)

const (
	// Requests about all quotas together are limited, so that many of them leave room for others.
	requestsPerSecond = 200
	requestBurst      = 400
	// workers is how many quotas are looked at at once.
	workers = 5
	// Objects that go are counted together with those that go soon after them, and those that come, which admission has charged, with those
	// of a longer while.
	afterDeletion = 200 * time.Millisecond
	afterCreation = time.Second
)

// Controller writes into the status of quotas what is used of them.
type Controller struct {
	informer cache.SharedIndexInformer
	lister   listers.ResourceQuotaLister
	quotas   typedcorev1.ResourceQuotasGetter
	objects  metadata.Interface

	known     *kinds
	charges   *charges
	following *following
	queue     workqueue.TypedRateLimitingInterface[string]
}

// New returns a controller that follows the informer, which others start, and counts with clients of the configuration. It relies on it
// after the period that what was charged is stored.
func New(config *rest.Config, informer informers.ResourceQuotaInformer, period time.Duration) (*Controller, error) {
	config = rest.CopyConfig(config)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, requestBurst)
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up requests about quotas: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make the client for quotas: %w", err)
	}
	objects, err := metadata.NewForConfigAndClient(config, transport)
	if err != nil {
		return nil, fmt.Errorf("make the client for what quotas count: %w", err)
	}
	return &Controller{
		informer: informer.Informer(), lister: informer.Lister(), quotas: client.CoreV1(), objects: objects,
		known: newKinds(resourcediscovery.NewKinds(client.Discovery().RESTClient()).Find, time.Now), charges: newCharges(period, time.Now),
	}, nil
}

// Run keeps the quotas until the context ends. It can be called once.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "resource_quotas"})
	c.following = newFollowing(c.watch)
	var working sync.WaitGroup
	defer c.following.wait()
	defer working.Wait()
	defer c.queue.ShutDown()
	registration, err := c.informer.AddEventHandler(leadership.EventHandler(ctx, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.changed(nil, obj.(*corev1.ResourceQuota)) },
		UpdateFunc: func(old, obj any) { c.changed(old.(*corev1.ResourceQuota), obj.(*corev1.ResourceQuota)) },
		DeleteFunc: c.deleted,
	}))
	if err != nil {
		return fmt.Errorf("follow quotas: %w", err)
	}
	defer func() { _ = c.informer.RemoveEventHandler(registration) }()
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	for range workers {
		leadership.Go(ctx, &working, func() {
			workloop.Run(ctx, c.queue, c.reconcile, func(key string, err error) {
				klog.FromContext(ctx).V(2).Info("What is used of a quota is not known; trying again", "quota", key, "reason", err.Error())
			})
		})
	}
	<-ctx.Done()
	return nil
}

// changed has a quota looked at: at once where it was not admission that wrote, and else when that may have been stored what it charged.
func (c *Controller) changed(before, after *corev1.ResourceQuota) {
	if c.charges.see(after) && before != nil && before.UID == after.UID && equal(after.Spec.Hard, after.Status.Hard) {
		c.queue.AddAfter(keyOf(after), c.charges.settle)
		return
	}
	c.queue.Add(keyOf(after))
}

func (c *Controller) deleted(obj any) {
	if missed, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = missed.Obj
	}
	if quota, ok := obj.(*corev1.ResourceQuota); ok {
		c.charges.forget(quota.UID)
		c.queue.Add(keyOf(quota))
	}
}

// watch has quotas looked at when objects of a kind come or go.
func (c *Controller) watch(ctx context.Context, kind schema.GroupResource, resource schema.GroupVersionResource) {
	stream{
		client: c.objects, resource: resource,
		missed: func() { c.all(kind) },
		event: func(event watch.EventType, object *metav1.PartialObjectMetadata) {
			// Else another watch of the kind has begun, in another version, and tells of it as well.
			if ctx.Err() == nil {
				c.observe(kind, resource, event, object)
			}
		},
	}.run(ctx)
}

// observe has quotas looked at that an object concerns.
func (c *Controller) observe(kind schema.GroupResource, resource schema.GroupVersionResource, event watch.EventType, object *metav1.PartialObjectMetadata) {
	if resource == definitions {
		c.known.defined(schema.ParseGroupResource(object.Name))
		c.all(kind)
	}
	switch event {
	case watch.Added:
		c.counting(kind, object.Namespace, afterCreation, func(*corev1.ResourceQuota, corev1.ResourceName) {})
	case watch.Deleted:
		c.counting(kind, object.Namespace, afterDeletion, func(quota *corev1.ResourceQuota, name corev1.ResourceName) {
			c.charges.deleted(quota.UID, name, object.ResourceVersion)
		})
	}
}

// all has the quotas looked at that a kind concerns.
func (c *Controller) all(kind schema.GroupResource) {
	for _, key := range c.following.concerned(kind) {
		c.queue.Add(key)
	}
}

// counting has the quotas of a namespace looked at that count a kind, after it has noted that for each of their numbers.
func (c *Controller) counting(kind schema.GroupResource, namespace string, after time.Duration, note func(*corev1.ResourceQuota, corev1.ResourceName)) {
	quotas, err := c.lister.ResourceQuotas(namespace).List(labels.Everything())
	if err != nil {
		return // the lister reads from memory
	}
	for _, quota := range quotas {
		for name := range quota.Spec.Hard {
			if counted, ok := kindOf(name); ok && counted == kind {
				note(quota, name)
				c.queue.AddAfter(keyOf(quota), after)
			}
		}
	}
}

func keyOf(quota *corev1.ResourceQuota) string { return quota.Namespace + "/" + quota.Name }
