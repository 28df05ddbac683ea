// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/controllers/leadership"
)

const (
	// byOwner is the index of objects by the uids of their owners.
	byOwner = "owner"
	// blocked is the index of the objects whose deletion waits for the controller.
	blocked = "blocked"
)

// meta is what is kept of an object.
type meta = metav1.PartialObjectMetadata

// monitor knows the objects of one kind.
type monitor struct {
	resource   schema.GroupVersionResource
	namespaced bool
	client     metadata.Getter
	informer   cache.SharedIndexInformer
	// synced reports whether all objects that there were at the start have been handled.
	synced  cache.InformerSynced
	stop    context.CancelFunc
	running sync.WaitGroup
	// away is set when the kind is no longer served in this version. The monitor ends, and keeps what it knows.
	away atomic.Bool
	// previous is the monitor of the kind before this one, until this one has synced and the two have been compared.
	previous *monitor

	mu sync.Mutex
	// watching is when the watch was opened. It is zero while no watch is open.
	watching time.Time
	// outdated is when the monitor was last current, or when it was created.
	outdated time.Time
}

func newMonitor(client metadata.Interface, k kind, handler cache.ResourceEventHandler) (*monitor, error) {
	m := &monitor{resource: k.resource, namespaced: k.namespaced, client: client.Resource(k.resource), outdated: time.Now()}
	m.informer = cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return m.client.List(ctx, options)
		},
		WatchFuncWithContext: m.watch,
	}, client), &meta{}, 0, cache.Indexers{byOwner: owners, blocked: whetherBlocked})
	if err := m.informer.SetTransform(trim); err != nil {
		return nil, err
	}
	registration, err := m.informer.AddEventHandler(handler)
	if err != nil {
		return nil, err
	}
	m.synced = registration.HasSynced
	return m, nil
}

// start follows the kind until the context ends, or the monitor is ended, and takes over from the previous monitor.
func (m *monitor) start(ctx context.Context, takeOver func(context.Context, *monitor)) {
	ctx, m.stop = context.WithCancel(ctx)
	m.running.Go(func() { m.informer.RunWithContext(ctx) })
	leadership.Go(ctx, &m.running, func() { takeOver(ctx, m) })
}

func (m *monitor) end() {
	m.stop()
	m.running.Wait()
}

// watch opens the watch of the informer, and records how long it is open.
func (m *monitor) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events, err := m.client.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.watching = time.Now()
	m.mu.Unlock()
	return recordedWatch{events, m}, nil
}

// recordedWatch is the open watch of a monitor. Its reader stops it, also after it ended.
type recordedWatch struct {
	watch.Interface
	m *monitor
}

func (w recordedWatch) Stop() {
	w.Interface.Stop()
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.m.isCurrent() {
		w.m.outdated = time.Now()
	}
	w.m.watching = time.Time{}
}

// isCurrent reports whether the monitor knows every object that was written more than catchUp ago. A list alone does not show that: the
// server may refuse the watch that follows it for seconds, while its own cache starts. The caller holds mu.
func (m *monitor) isCurrent() bool {
	return !m.watching.IsZero() && time.Since(m.watching) >= catchUp && m.synced()
}

// isWaitedFor reports whether decisions that depend on all objects have to wait for the monitor.
func (m *monitor) isWaitedFor() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.isCurrent() && time.Since(m.outdated) < patience
}

// indexed returns the objects that an index has for a value.
func (m *monitor) indexed(index, value string) []*meta {
	found, err := m.informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // only where there is no such index
	}
	all := make([]*meta, 0, len(found))
	for _, obj := range found {
		all = append(all, obj.(*meta))
	}
	return all
}

func (m *monitor) get(namespace, name string) *meta {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	found, ok, err := m.informer.GetStore().GetByKey(key)
	if err != nil || !ok {
		return nil
	}
	return found.(*meta)
}

// known returns all objects, those included of which only the previous monitor knows.
func (m *monitor) known() []*meta {
	var all []*meta
	for _, obj := range m.informer.GetStore().List() {
		all = append(all, obj.(*meta))
	}
	if m.previous != nil {
		for _, obj := range m.previous.known() {
			if m.get(obj.Namespace, obj.Name) == nil {
				all = append(all, obj)
			}
		}
	}
	return all
}

// objects returns the metadata client of the kind, in a namespace if it has namespaces.
func (m *monitor) objects(namespace string) metadata.ResourceInterface {
	if m.namespaced {
		return m.client.Namespace(namespace)
	}
	return m.client
}

func (m *monitor) object(of *meta) object {
	return object{resource: m.resource.GroupResource(), namespace: of.Namespace, name: of.Name, uid: of.UID}
}

func owners(obj any) ([]string, error) {
	var uids []string
	for _, ref := range obj.(*meta).OwnerReferences {
		uids = append(uids, string(ref.UID))
	}
	return uids, nil
}

func whetherBlocked(obj any) ([]string, error) {
	if isOurs(obj.(*meta)) {
		return []string{""}, nil
	}
	return nil, nil
}

// trim keeps what decisions need.
func trim(obj any) (any, error) {
	full, ok := obj.(*meta)
	if !ok {
		return obj, nil
	}
	return &meta{ObjectMeta: metav1.ObjectMeta{
		Name: full.Name, Namespace: full.Namespace, UID: full.UID, ResourceVersion: full.ResourceVersion,
		DeletionTimestamp: full.DeletionTimestamp, Finalizers: full.Finalizers, OwnerReferences: full.OwnerReferences,
	}}, nil
}

func has(obj *meta, finalizer string) bool { return slices.Contains(obj.Finalizers, finalizer) }

// waits reports whether an object is deleted in the foreground and still there.
func waits(obj *meta) bool {
	return obj.DeletionTimestamp != nil && has(obj, metav1.FinalizerDeleteDependents)
}

// refersTo returns the reference of an object to an owner.
func refersTo(obj *meta, owner types.UID) (metav1.OwnerReference, bool) {
	i := slices.IndexFunc(obj.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == owner })
	if i < 0 {
		return metav1.OwnerReference{}, false
	}
	return obj.OwnerReferences[i], true
}

func blocks(ref metav1.OwnerReference) bool {
	return ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}
