// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/internal/workloop"
)

const (
	// workers is how many objects are decided upon at once.
	workers = 10
	// firstRetry and lastRetry bound how long it takes to try again after a failure.
	firstRetry = 20 * time.Millisecond
	lastRetry  = 2 * time.Minute
	// settle is how long an owner waits for further news of its dependents before it is looked at again.
	settle = 100 * time.Millisecond
	// patience is how long decisions that need to know all dependents wait for a kind that cannot be listed or watched.
	patience = 30 * time.Second
	// catchUp is how long an open watch may take to deliver what was written before. Orphaning waits as long: dependents that were
	// written before the deletion of their owner may be reported after it, by another watch.
	catchUp = 500 * time.Millisecond
	// blockedInterval is how often objects are looked at whose deletion waits for others, whatever was heard of these.
	blockedInterval = time.Minute
	// remembered is how many owners are known to be gone.
	remembered = 5000
)

// object is one object of a kind with a monitor.
type object struct {
	resource        schema.GroupResource
	namespace, name string
	uid             types.UID
}

// Controller collects garbage.
type Controller struct {
	client    metadata.Interface
	discovery discovery.DiscoveryInterfaceWithContext
	queue     workqueue.TypedRateLimitingInterface[object]
	// absent are the owners that are known to be gone.
	absent *lru.Cache
	// changed has a value when there may be other kinds than before.
	changed chan struct{}

	mu       sync.RWMutex
	monitors map[schema.GroupResource]*monitor
	kinds    map[schema.GroupVersionKind]kind
	// defined are the kinds that have, or had, a definition, with since when they are served without one; zero while they have it.
	defined map[schema.GroupResource]time.Time
	// unserved are the definitions that had no monitor when they were first seen, and when that was.
	unserved map[schema.GroupResource]time.Time
	// incomplete is since when there are groups of which discovery has told nothing; zero when there are none.
	incomplete time.Time
	// expanded are the objects whose deletion in the foreground has been passed on to their dependents.
	expanded map[types.UID]bool
}

// New returns a controller that works as the client of config. It starts nothing.
func New(config *rest.Config) (*Controller, error) {
	config = metadata.ConfigFor(config)
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of metadata: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make the client of discovery: %w", err)
	}
	return &Controller{
		client: client, discovery: found, absent: lru.New(remembered), changed: make(chan struct{}, 1),
		monitors: map[schema.GroupResource]*monitor{}, kinds: map[schema.GroupVersionKind]kind{},
		defined: map[schema.GroupResource]time.Time{}, unserved: map[schema.GroupResource]time.Time{}, expanded: map[types.UID]bool{},
	}, nil
}

// Run collects until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[object](firstRetry, lastRetry),
		workqueue.TypedRateLimitingQueueConfig[object]{Name: "garbage_collection"})
	var working sync.WaitGroup
	defer working.Wait()
	defer c.queue.ShutDown()
	for range workers {
		leadership.Go(ctx, &working, func() { c.work(ctx) })
	}
	leadership.Go(ctx, &working, func() { wait.UntilWithContext(ctx, func(context.Context) { c.lookAtBlocked() }, blockedInterval) })
	c.followKinds(ctx)
	return nil
}

func (c *Controller) work(ctx context.Context) {
	decide := func(ctx context.Context, o object) (time.Duration, error) { return 0, c.decide(ctx, o) }
	workloop.Run(ctx, c.queue, decide, func(o object, err error) {
		klog.FromContext(ctx).V(2).Info("Object could not be collected or let go; trying again",
			"resource", o.resource, "object", klog.KRef(o.namespace, o.name), "reason", err.Error())
	})
}

// decide does what is to be done about an object.
func (c *Controller) decide(ctx context.Context, o object) error {
	m := c.monitor(o.resource)
	if m == nil || m.away.Load() {
		return nil // it is put into the queue again when its kind is served
	}
	current := m.get(o.namespace, o.name)
	if current == nil || current.UID != o.uid {
		return nil
	}
	switch deleting := current.DeletionTimestamp != nil; {
	case deleting && has(current, metav1.FinalizerOrphanDependents):
		return c.orphan(ctx, m, current)
	case deleting && has(current, metav1.FinalizerDeleteDependents):
		return c.foreground(ctx, m, current)
	case deleting || len(current.OwnerReferences) == 0:
		return nil
	}
	return c.collect(ctx, m, current)
}

func (c *Controller) monitor(resource schema.GroupResource) *monitor {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.monitors[resource]
}
