// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	annexinformers "github.com/kube-annex/annex/generated/informers/externalversions"
	"github.com/kube-annex/annex/internal/workloop"
)

const (
	component = "annex-node-balloons"
	// workers is how many nodes are looked at in parallel, and the client's limits what that may cost the API.
	workers     = 8
	clientQPS   = 100
	clientBurst = 200
	eventQPS    = 50
	byNode      = "node"
)

// Controller keeps balloons as large as their NodeBalloons say.
type Controller struct {
	options Options
	taint   *corev1.Taint
	client  kubernetes.Interface
	annex   versioned.Interface

	queue    workqueue.TypedRateLimitingInterface[string]
	nodes    cache.SharedIndexInformer
	pods     cache.SharedIndexInformer
	balloons cache.SharedIndexInformer
	events   *events

	mu       sync.Mutex
	memories map[string]memory
}

// New returns a controller. It starts nothing; the error lists every mistake.
func New(options Options) (*Controller, error) {
	taint, err := options.complete()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(options.Host)
	config.QPS, config.Burst, config.RateLimiter = clientQPS, clientBurst, nil
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the controller of NodeBalloons: %w", err)
	}
	annex, err := versioned.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the controller of NodeBalloons: %w", err)
	}
	// Events wait for themselves, not for balloons.
	config.QPS, config.Burst = eventQPS, eventQPS
	eventClient, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the controller of NodeBalloons: %w", err)
	}
	return &Controller{
		options: options, taint: taint, client: client, annex: annex,
		events: newEvents(eventClient, options.Clock), memories: map[string]memory{},
	}, nil
}

// Run works until the context ends, and returns when all of its work has ended. It can be called once. While balloons are Off it does
// nothing.
func (c *Controller) Run(ctx context.Context) error {
	if c.options.Mode == Off {
		<-ctx.Done()
		return nil
	}
	logger := klog.FromContext(ctx).WithName("node-balloons")
	ctx = klog.NewContext(ctx, logger)
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: component, Clock: c.options.Clock})
	var running sync.WaitGroup
	defer c.options.Metrics.reset()
	defer running.Wait()
	defer c.queue.ShutDown()

	host := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithTransform(slim))
	balloonPods := informers.NewSharedInformerFactoryWithOptions(c.client, 0, informers.WithNamespace(Namespace), informers.WithTransform(slim),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = label }))
	ours := annexinformers.NewSharedInformerFactory(c.annex, 0)
	defer host.Shutdown()
	defer balloonPods.Shutdown()
	defer ours.Shutdown()
	c.nodes, c.pods, c.balloons = host.Core().V1().Nodes().Informer(), balloonPods.Core().V1().Pods().Informer(), ours.Node().V1alpha1().NodeBalloons().Informer()
	if err := c.watch(ctx); err != nil {
		return err
	}
	host.StartWithContext(ctx)
	balloonPods.StartWithContext(ctx)
	ours.StartWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), c.nodes.HasSynced, c.pods.HasSynced, c.balloons.HasSynced) {
		return nil
	}
	leadership.Go(ctx, &running, func() { c.keepFleet(ctx) })
	leadership.Go(ctx, &running, func() { c.events.run(ctx) })
	for range workers {
		leadership.Go(ctx, &running, func() {
			workloop.Run(ctx, c.queue, c.reconcile, func(name string, err error) {
				// After a conflict, what something else did is about to be seen.
				if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					logger.Error(err, "Cannot bring a balloon to its size; trying again", "node", name)
				}
			})
		})
	}
	<-ctx.Done()
	return nil
}

// watch has every change put its node into the queue.
func (c *Controller) watch(ctx context.Context) error {
	if err := c.pods.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok {
			return []string{nodeOf(pod)}, nil
		}
		return nil, nil
	}}); err != nil {
		return fmt.Errorf("index balloon pods by node: %w", err)
	}
	add := func(obj any) {
		if deleted, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = deleted.Obj
		}
		switch object := obj.(type) {
		case *corev1.Pod:
			if node := nodeOf(object); node != "" {
				c.queue.Add(node)
			}
		case metav1.Object:
			c.queue.Add(object.GetName())
		}
	}
	handler := leadership.EventHandler(ctx, cache.ResourceEventHandlerFuncs{AddFunc: add, DeleteFunc: add, UpdateFunc: func(before, after any) {
		if node, ok := after.(*corev1.Node); ok && sameNode(before.(*corev1.Node), node) {
			return // Kubelets write heartbeats all the time.
		}
		add(after)
	}})
	for _, informer := range []cache.SharedIndexInformer{c.nodes, c.pods, c.balloons} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("follow nodes, balloon pods and NodeBalloons: %w", err)
		}
	}
	return nil
}

// slim drops what is of no use here and most of what is stored.
func slim(obj any) (any, error) {
	switch object := obj.(type) {
	case *corev1.Node:
		object.ManagedFields, object.Annotations = nil, nil
		object.Status.Images, object.Status.Conditions, object.Status.VolumesInUse, object.Status.VolumesAttached = nil, nil, nil, nil
	case *corev1.Pod:
		object.ManagedFields = nil
	}
	return obj, nil
}
