// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
)

// workers is how many Features are looked at in parallel.
const workers = 4

// Engine moves the Features of one namespace through their states, together with the engines of the server's other replicas.
type Engine struct {
	options  Options
	features map[string]*Feature
	client   featuresclient.FeatureInterface
	leases   coordinationclient.LeaseInterface

	identity *identity
	// members are the replicas, and reporters those who report.
	members, reporters *livenesses
	informer           cache.SharedIndexInformer
	queue              workqueue.TypedRateLimitingInterface[string]
	// attempts are those at tasks that are running.
	attempts sync.WaitGroup

	mu sync.Mutex
	// replicas are the live members, in order of their names.
	replicas []replica
	entries  map[string]*entry
	warmAt   time.Time
	// unsupported is since when no live reporter has stood for a use of a Feature.
	unsupported map[string]map[useKey]time.Time
}

// New returns an engine that does not run yet. The error lists everything that is wrong with the options.
func New(options Options) (*Engine, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	text, err := announce(&options)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		options: options, features: map[string]*Feature{}, entries: map[string]*entry{},
		client: options.Client.FeaturesV1alpha1().Features(options.Namespace),
		leases: options.Leases.Leases(options.Namespace),
	}
	for i := range options.Features {
		e.features[options.Features[i].Name] = &options.Features[i]
	}
	e.members = newLivenesses(options.Clock, options.Timings.LeaseDuration)
	e.reporters = newLivenesses(options.Clock, 0)
	e.identity = &identity{
		options: &e.options, leases: e.leases, others: e.members, announced: text,
		holder: options.Instance + "_" + strings.ToLower(rand.Text()[:10]),
	}
	return e, nil
}

// Run works until the context ends and all tasks have returned. It can be called once.
func (e *Engine) Run(ctx context.Context) error {
	e.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "feature_lifecycle", Clock: e.options.Clock})
	var running sync.WaitGroup
	defer e.identity.release(context.WithoutCancel(ctx))
	defer e.attempts.Wait()
	defer running.Wait()
	defer e.queue.ShutDown()

	changed := make(chan struct{}, 1)
	synced, err := e.watch(ctx, &running, changed)
	if err != nil {
		return err
	}
	running.Go(func() { e.identity.run(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil
	}
	e.mu.Lock()
	e.warmAt = e.options.Clock.Now().Add(e.options.Timings.RenewInterval)
	e.mu.Unlock()
	for range workers {
		running.Go(func() {
			for e.workNext(ctx) {
			}
		})
	}
	e.enqueueAll()
	ticker := e.options.Clock.NewTicker(e.options.Timings.Poll)
	defer ticker.Stop()
	usesDue := e.options.Clock.Now()
	for {
		e.refresh(ctx)
		select {
		case <-changed:
		case <-ticker.C():
			e.forget(ctx)
			if now := e.options.Clock.Now(); !now.Before(usesDue) {
				e.watchUses()
				usesDue = now.Add(e.options.Timings.UseRetention / hurry)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// watch starts to follow Features and Leases. It signals changes of replicas.
func (e *Engine) watch(ctx context.Context, running *sync.WaitGroup, changed chan<- struct{}) ([]cache.InformerSynced, error) {
	var synced []cache.InformerSynced
	start := func(informer cache.SharedIndexInformer, handlers ...cache.ResourceEventHandler) error {
		for _, handler := range handlers {
			registration, err := informer.AddEventHandler(handler)
			if err != nil {
				return fmt.Errorf("follow Features and Leases: %w", err)
			}
			synced = append(synced, registration.HasSynced)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
		return nil
	}
	signal := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	e.informer = informerOf(e.options.Client, e.client, &v1alpha1.Feature{}, "")
	err := start(e.informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    e.enqueue,
		UpdateFunc: func(_, obj any) { e.enqueue(obj) },
		DeleteFunc: func(obj any) {
			e.drop(obj)
			e.enqueue(obj)
		},
	})
	if err == nil {
		err = start(informerOf(e.options.Leases, e.leases, &coordinationv1.Lease{}, announcerLabel), e.members, cache.ResourceEventHandlerFuncs{
			AddFunc: signal, UpdateFunc: func(_, obj any) { signal(obj) }, DeleteFunc: signal,
		})
	}
	if err == nil {
		err = start(informerOf(e.options.Leases, e.leases, &coordinationv1.Lease{}, featuregate.LabelComponent), e.reporters)
	}
	return synced, err
}

// lister is a typed client.
type lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// informerOf follows what a client of the given clients lists.
func informerOf[L runtime.Object](of any, client lister[L], example runtime.Object, selector string) cache.SharedIndexInformer {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = selector
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = selector
			return client.Watch(ctx, options)
		},
	}
	informer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, of), example, 0, cache.Indexers{})
	// There may be ten thousand Leases. It fails only once the informer runs.
	_ = informer.SetTransform(func(obj any) (any, error) {
		if lease, ok := obj.(*coordinationv1.Lease); ok {
			small := *lease
			small.ManagedFields = nil
			return &small, nil
		}
		return obj, nil
	})
	return informer
}

// deletedName returns the name of a deleted object, of which the last state may be unknown.
func deletedName(obj any) (string, error) {
	key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return "", err
	}
	_, name, err := cache.SplitMetaNamespaceKey(key)
	return name, err
}

func (e *Engine) enqueue(obj any) {
	if name, err := deletedName(obj); err == nil {
		e.queue.Add(name)
	}
}

func (e *Engine) enqueueAll() {
	for name := range e.features {
		e.queue.Add(name)
	}
	for _, key := range e.informer.GetStore().ListKeys() {
		if _, name, err := cache.SplitMetaNamespaceKey(key); err == nil {
			e.queue.Add(name)
		}
	}
}

// refresh looks which replicas are live; if others are than before, or they announce something else, all Features are looked at.
func (e *Engine) refresh(ctx context.Context) {
	var now []replica
	e.members.live(func(lease *coordinationv1.Lease, _ time.Time) { now = append(now, replicaOf(lease)) })
	slices.SortFunc(now, func(a, b replica) int { return strings.Compare(a.name, b.name) })
	e.mu.Lock()
	same := slices.EqualFunc(e.replicas, now, replica.equal)
	if !same {
		for _, entry := range e.entries {
			if !entry.rechecked.IsZero() {
				entry.rechecked = time.Unix(0, 0) // Who is new may have another mind.
			}
		}
	}
	e.replicas = now
	e.mu.Unlock()
	if same {
		return
	}
	names := make([]string, 0, len(now))
	for _, r := range now {
		names = append(names, r.display())
	}
	klog.FromContext(ctx).V(2).Info("Other replicas are live than before", "namespace", e.options.Namespace, "replicas", names)
	e.enqueueAll()
}

// forget deletes Leases that expired long ago: processes with names of their own leave them behind.
func (e *Engine) forget(ctx context.Context) {
	if r, ok := leads(e.live(), e.options.Namespace, ""); !ok || r.holder != e.identity.holder {
		return
	}
	for _, leases := range []*livenesses{e.members, e.reporters} {
		for name, preconditions := range leases.longDead() {
			if err := e.leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &preconditions}); err != nil {
				klog.FromContext(ctx).V(2).Info("Could not delete a Lease that expired long ago", "lease", klog.KRef(e.options.Namespace, name), "err", err)
				return
			}
		}
	}
}

func (e *Engine) live() []replica {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replicas
}

// pause returns after a while, or when the context ends.
func pause(ctx context.Context, c clock.Clock, d time.Duration) {
	timer := c.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
