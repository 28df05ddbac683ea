// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"fmt"
	"path"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-annex/annex/registry/quantities"
	"github.com/kube-annex/annex/registry/resource"
)

// This file stacks all layers between the endpoint of a resource and etcd. Each function lists its layers from the innermost, closest to
// etcd, to the outermost: NewClient, newStore, Decorator. Above them is upstream's registry.Store, for most kinds inside of the rules of
// registry/resource.

// NewClient returns the client that all resources share. translate wraps a client into one with errors that users can act on.
func NewClient(plain *clientv3.Client, translate func(kubernetes.Interface) kubernetes.Interface) *kubernetes.Client {
	// Adds the time that etcd takes to audit events and traces.
	plain.KV = etcd3.NewETCDLatencyTracker(plain.KV)
	// Extends the transactions of writes: objects that the write depends on, the fence of a leader, companion keys.
	guarded := resource.GuardClient(kubernetes.Client{Client: plain}, plain.KV)
	// Outside of the guard, whose transactions fail with the same errors.
	return &kubernetes.Client{Client: plain, Kubernetes: translate(guarded)}
}

// newStore returns the store of a resource without its watch cache, and a function that closes it. broken is nil if lists must be complete.
func newStore(client *kubernetes.Client, compactor etcd3.Compactor, config *storagebackend.ConfigForResource, resourcePrefix string, newFunc, newListFunc func() runtime.Object, broken judgement) (storage.Interface, func(), error) {
	transformer, codec, decoder := encoding(config, broken)
	// Upstream's store, on the shared client.
	raw, err := etcd3.New(client, compactor, codec, newFunc, newListFunc, config.Prefix, resourcePrefix, config.GroupResource, transformer, config.LeaseManagerConfig, decoder, storage.APIObjectVersioner{})
	if err != nil {
		return nil, nil, err
	}
	var store storage.Interface = raw
	// Upstream's deletion of objects that cannot be decoded, if the client asks for it.
	if deletesUnreadable() {
		store = etcd3.NewStoreWithUnsafeCorruptObjectDeletion(store, config.GroupResource)
	}
	// A watch stream for each resource: a slow one does not delay the others.
	return ownWatchStream{Interface: store, resource: config.GroupResource.String()}, raw.Close, nil
}

// encoding returns the layers between bytes in etcd and objects.
func encoding(config *storagebackend.ConfigForResource, broken judgement) (value.Transformer, runtime.Codec, etcd3.Decoder) {
	// Encryption at rest.
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	codec, decoder := config.Codec, etcd3.NewDefaultDecoder(config.Codec, storage.APIObjectVersioner{})
	// Marks objects that cannot be decrypted or decoded in lists and watches, for tolerantStore.
	if broken != nil {
		codec, decoder = tolerantCodec{codec, broken}, tolerantDecoder{decoder, broken}
		transformer = tolerantTransformer{transformer}
	}
	// Errors by which upstream's unsafe deletion recognizes such objects.
	if deletesUnreadable() {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	return transformer, codec, decoder
}

// Decorator returns the storage of one resource at a time, on the shared client, which the caller keeps open until all of them are destroyed.
// The compactor reports the compacted revision; it may be nil.
func Decorator(client *kubernetes.Client, compactor etcd3.Compactor) generic.StorageDecorator {
	return func(
		config *storagebackend.ConfigForResource,
		resourcePrefix string,
		keyFunc func(obj runtime.Object) (string, error),
		newFunc, newListFunc func() runtime.Object,
		attributes storage.AttrFunc,
		triggers storage.IndexerFuncs,
		indexers *cache.Indexers,
	) (storage.Interface, factory.DestroyFunc, error) {
		// Rejects stored quantities with extreme exponents, which would take seconds to compute with.
		if quantities.InResource(config.GroupResource) {
			limited := *config
			limited.Codec = quantities.Codec(config.Codec)
			config = &limited
		}
		var broken judgement
		if !mustBeComplete(config.GroupResource) {
			broken = judgementFor(newFunc())
		}
		store, closeStore, err := newStore(client, compactor, config, resourcePrefix, newFunc, newListFunc, broken)
		if err != nil {
			return nil, nil, fmt.Errorf("store of %s: %w", config.GroupResource, err)
		}
		// Leaves objects that cannot be decoded out of lists and watches. Inside of the cache, which could not start otherwise.
		unreadable := &unreadable{resource: config.GroupResource}
		etcdKey := func(key string) string { return path.Join("/", config.Prefix, key) }
		if broken != nil {
			store = tolerantStore{
				Interface: store, unreadable: unreadable, kv: client.KV, prefix: etcdKey(resourcePrefix) + "/", newFunc: newFunc, keyFunc: keyFunc, etcdKey: etcdKey,
			}
		}
		// Upstream's watch cache: answers watches and most lists from memory.
		watchCache, err := cacher.NewCacherFromConfig(cacher.Config{
			Storage: store, Versioner: storage.APIObjectVersioner{}, GroupResource: config.GroupResource, EventsHistoryWindow: config.EventsHistoryWindow,
			ResourcePrefix: resourcePrefix, KeyFunc: keyFunc, NewFunc: newFunc, NewListFunc: newListFunc,
			GetAttrsFunc: attributes, IndexerFuncs: triggers, Indexers: indexers, Codec: config.Codec,
		})
		if err != nil {
			closeStore()
			return nil, nil, fmt.Errorf("watch cache of %s: %w", config.GroupResource, err)
		}
		delegator := cacher.NewCacheDelegator(watchCache, store)
		// Rejects watches from the future. Outside of the cache, which would wait for it.
		store = freshness{Interface: delegator, newest: &atomic.Uint64{}}
		// Warns about objects that tolerantStore left out. Outermost: it needs the client's request, also for lists from the cache.
		store = warningStore{Interface: store, unreadable: unreadable, etcdKey: etcdKey}
		// Subresources share their resource's storage, so it is destroyed more than once.
		return store, sync.OnceFunc(func() {
			delegator.Stop()
			watchCache.Stop()
			closeStore()
		}), nil
	}
}

// deletesUnreadable reports whether upstream's unsafe deletion of undecodable objects is enabled.
func deletesUnreadable() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
}

// mustBeComplete reports whether nothing may be left out of lists of a resource. An undecodable policy might forbid the request; without a
// Feature or a claim others would clear fields or take identities again. Such lists fail until the object is repaired or deleted.
func mustBeComplete(resource schema.GroupResource) bool {
	switch resource.Group {
	case "admissionregistration.k8s.io", "features.k8s.io", "multicluster.k8s.io", "node.k8s.io":
		return true
	}
	return false
}
