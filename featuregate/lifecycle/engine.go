// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"context"
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

	"github.com/kube-annex/annex/apis/features/v1alpha1"
	"github.com/kube-annex/annex/featuregate"
	featuresclient "github.com/kube-annex/annex/generated/clientset/versioned/typed/features/v1alpha1"
	"github.com/kube-annex/annex/internal/heartbeat"
)

const (
	// workers is the number of Features that are reconciled in parallel.
	workers = 4
	// expiredDurations is the number of lease durations for which the Lease of a dead process is kept.
	expiredDurations = 4
)

// Engine moves the Features of one namespace through their states, together with the engines of the server's other replicas.
type Engine struct {
	options  Options
	features map[string]*Feature
	client   featuresclient.FeatureInterface
	leases   coordinationclient.LeaseInterface

	// identity is the Lease of this replica.
	identity *heartbeat.Lease
	// members are the replicas, and reporters those who report.
	replicaLeases, reporterLeases *heartbeat.Observer
	// allReporters are those of all namespaces, in the engine that removes the Leases of dead ones; nil in others.
	allReporterLeases *heartbeat.Observer
	informer          cache.SharedIndexInformer
	queue             workqueue.TypedRateLimitingInterface[string]
	// attempts are those at tasks that are running.
	taskRuns sync.WaitGroup

	mu sync.Mutex
	// replicas are the live members, in order of their names.
	replicas []replica
	memories map[string]*featureMemory
	warmAt   time.Time
	// unsupportedUses is since when no live reporter has stood for a use of a Feature.
	unsupportedUses map[string]map[useKey]time.Time
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
		options: options, features: map[string]*Feature{}, memories: map[string]*featureMemory{},
		client: options.Client.FeaturesV1alpha1().Features(options.Namespace),
		leases: options.Leases.Leases(options.LeaseNamespace),
	}
	for i := range options.Features {
		e.features[options.Features[i].Name] = &options.Features[i]
	}
	elapsed := heartbeat.Since(options.Clock)
	e.replicaLeases = &heartbeat.Observer{Elapsed: elapsed, Duration: options.Timings.LeaseDuration}
	e.reporterLeases = &heartbeat.Observer{Elapsed: elapsed, DefaultDuration: featuregate.LeaseDuration}
	if options.Namespace == featuregate.LeaseNamespace {
		e.allReporterLeases = &heartbeat.Observer{Elapsed: elapsed, DefaultDuration: featuregate.LeaseDuration}
	}
	e.identity = e.newIdentity(text)
	return e, nil
}

// Run works until the context ends and all tasks have returned. It can be called once.
func (e *Engine) Run(ctx context.Context) error {
	e.queue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](10*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "feature_lifecycle", Clock: e.options.Clock})
	var running sync.WaitGroup
	defer e.releaseIdentity(context.WithoutCancel(ctx))
	defer e.taskRuns.Wait()
	defer running.Wait()
	defer e.queue.ShutDown()

	changed := make(chan struct{}, 1)
	synced, err := e.watch(ctx, &running, changed)
	if err != nil {
		return err
	}
	running.Go(func() {
		e.identity.Run(ctx, e.options.Clock, e.options.Timings.RenewInterval, min(e.options.Timings.RenewInterval, e.options.Timings.Poll))
	})
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
		e.refreshReplicas(ctx)
		select {
		case <-changed:
		case <-ticker.C():
			e.deleteExpiredLeases(ctx)
			if now := e.options.Clock.Now(); !now.Before(usesDue) {
				e.updateUnsupportedUses()
				usesDue = now.Add(e.options.Timings.UseRetention / crowdedFactor)
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
	e.informer = newInformer(e.options.Client, e.client, &v1alpha1.Feature{}, "")
	err := start(e.informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    e.enqueue,
		UpdateFunc: func(_, obj any) { e.enqueue(obj) },
		DeleteFunc: func(obj any) {
			e.forgetDeleted(obj)
			e.enqueue(obj)
		},
	})
	leases := func(namespace, selector string) cache.SharedIndexInformer {
		return newInformer(e.options.Leases, e.options.Leases.Leases(namespace), &coordinationv1.Lease{}, selector)
	}
	for _, namespace := range slices.Compact([]string{e.options.Namespace, featuregate.LeaseNamespace}) {
		if err == nil {
			err = start(leases(namespace, announcerLabel), e.ofNamespace(e.replicaLeases), cache.ResourceEventHandlerFuncs{
				AddFunc: signal, UpdateFunc: func(_, obj any) { signal(obj) }, DeleteFunc: signal,
			})
		}
	}
	// Clients of former releases wrote Leases without the namespace's label themselves. What they say is not believed.
	selector, handlers := featuregate.LabelComponent+","+featuregate.LabelNamespace, []cache.ResourceEventHandler{e.ofNamespace(e.reporterLeases)}
	if e.allReporterLeases != nil {
		handlers = append(handlers, e.allReporterLeases)
	} else {
		selector += "=" + e.options.Namespace
	}
	if err == nil {
		err = start(leases(featuregate.LeaseNamespace, selector), handlers...)
	}
	return synced, err
}

// ofNamespace passes on the Leases that are about Features of the engine's namespace.
func (e *Engine) ofNamespace(next cache.ResourceEventHandler) cache.ResourceEventHandler {
	return cache.FilteringResourceEventHandler{Handler: next, FilterFunc: func(obj any) bool {
		lease, ok := obj.(*coordinationv1.Lease)
		return !ok || cmp.Or(lease.Labels[featuregate.LabelNamespace], lease.Namespace) == e.options.Namespace
	}}
}

// lister is a typed client.
type lister[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// informerOf follows what a client of the given clients lists.
func newInformer[L runtime.Object](of any, client lister[L], example runtime.Object, selector string) cache.SharedIndexInformer {
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

// refreshReplicas lists the live replicas. If they or their announcements have changed, all Features are reconciled.
func (e *Engine) refreshReplicas(ctx context.Context) {
	var now []replica
	e.replicaLeases.Live(func(lease *coordinationv1.Lease) { now = append(now, replicaOf(lease)) })
	slices.SortFunc(now, func(a, b replica) int { return strings.Compare(a.name, b.name) })
	e.mu.Lock()
	same := slices.EqualFunc(e.replicas, now, replica.equal)
	if !same {
		for _, entry := range e.memories {
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

// deleteExpiredLeases deletes Leases that expired long ago: processes with names of their own leave them behind.
func (e *Engine) deleteExpiredLeases(ctx context.Context) {
	if r, ok := assignee(e.liveReplicas(), e.options.Namespace, ""); !ok || r.holder != e.identity.Holder {
		return
	}
	for _, leases := range []*heartbeat.Observer{e.replicaLeases, e.allReporterLeases} {
		if leases == nil {
			continue
		}
		for name, preconditions := range leases.Expired(e.options.LeaseNamespace, expiredDurations) {
			if err := e.leases.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &preconditions}); err != nil {
				klog.FromContext(ctx).V(2).Info("Could not delete a Lease that expired long ago", "lease", klog.KRef(e.options.LeaseNamespace, name), "err", err)
				return
			}
		}
	}
}

func (e *Engine) liveReplicas() []replica {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.replicas
}
