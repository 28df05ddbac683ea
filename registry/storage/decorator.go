// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"path"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
)

// Decorator returns storage for one resource at a time: a watch cache above a store on the shared client, which the caller
// keeps open for as long as any of them is in use. The compactor may be nil; the store asks it what has been compacted.
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
		var broken judgement
		if !mustBeComplete(config.GroupResource) {
			broken = judgementFor(newFunc())
		}
		store, closeStore, err := newStore(client, compactor, config, resourcePrefix, newFunc, newListFunc, broken)
		if err != nil {
			return nil, nil, fmt.Errorf("store of %s: %w", config.GroupResource, err)
		}
		left := &unreadable{resource: config.GroupResource}
		etcdKey := func(key string) string { return path.Join("/", config.Prefix, key) }
		if broken != nil {
			store = lenient{
				Interface: store, unreadable: left, kv: client.KV, prefix: etcdKey(resourcePrefix) + "/", newFunc: newFunc, keyFunc: keyFunc, etcdKey: etcdKey,
			}
		}
		watchCache, err := cacher.NewCacherFromConfig(cacher.Config{
			Storage:             store,
			Versioner:           storage.APIObjectVersioner{},
			GroupResource:       config.GroupResource,
			EventsHistoryWindow: config.EventsHistoryWindow,
			ResourcePrefix:      resourcePrefix,
			KeyFunc:             keyFunc,
			NewFunc:             newFunc,
			NewListFunc:         newListFunc,
			GetAttrsFunc:        attributes,
			IndexerFuncs:        triggers,
			Indexers:            indexers,
			Codec:               config.Codec,
		})
		if err != nil {
			closeStore()
			return nil, nil, fmt.Errorf("watch cache of %s: %w", config.GroupResource, err)
		}
		delegator := cacher.NewCacheDelegator(watchCache, store)
		// Subresources share their resource's storage, so it is destroyed more than once.
		return telling{Interface: known{Interface: delegator, newest: &atomic.Uint64{}}, unreadable: left, etcdKey: etcdKey}, sync.OnceFunc(func() {
			delegator.Stop()
			watchCache.Stop()
			closeStore()
		}), nil
	}
}

func newStore(client *kubernetes.Client, compactor etcd3.Compactor, config *storagebackend.ConfigForResource, resourcePrefix string, newFunc, newListFunc func() runtime.Object, broken judgement) (storage.Interface, func(), error) {
	transformer := config.Transformer
	if transformer == nil {
		transformer = identity.NewEncryptCheckTransformer()
	}
	versioner := storage.APIObjectVersioner{}
	codec, decoder := config.Codec, etcd3.NewDefaultDecoder(config.Codec, versioner)
	if broken != nil {
		codec, decoder = lenientCodec{codec, broken}, lenientDecoder{decoder, broken}
	}
	unsafeDeletion := utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
	if unsafeDeletion {
		transformer = etcd3.WithCorruptObjErrorHandlingTransformer(transformer)
		decoder = etcd3.WithCorruptObjErrorHandlingDecoder(decoder)
	}
	store, err := etcd3.New(client, compactor, codec, newFunc, newListFunc, config.Prefix, resourcePrefix, config.GroupResource, transformer, config.LeaseManagerConfig, decoder, versioner)
	if err != nil {
		return nil, nil, err
	}
	var out storage.Interface = store
	if unsafeDeletion {
		out = etcd3.NewStoreWithUnsafeCorruptObjectDeletion(out, config.GroupResource)
	}
	return ownWatchStream{Interface: out, resource: config.GroupResource.String()}, store.Close, nil
}

// mustBeComplete tells of resources of which nothing may be left out. A policy that cannot be decoded might forbid what is asked for, and
// without a Feature or a claim others would clear fields or take identities again. Their lists fail until somebody repairs or deletes it.
func mustBeComplete(resource schema.GroupResource) bool {
	switch resource.Group {
	case "admissionregistration.k8s.io", "features.k8s.io", "multicluster.k8s.io", "node.k8s.io":
		return true
	}
	return false
}

// ownWatchStream gives a resource a watch stream of its own. The etcd client keeps one stream for each set of outgoing
// metadata; on a shared stream one slow resource would hold up the progress notifications, and so the consistent lists, of
// all others.
type ownWatchStream struct {
	storage.Interface
	resource string
}

func (s ownWatchStream) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	return s.Interface.Watch(s.mark(ctx), key, options)
}

func (s ownWatchStream) RequestWatchProgress(ctx context.Context) error {
	return s.Interface.RequestWatchProgress(s.mark(ctx))
}

func (s ownWatchStream) mark(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "resource", s.resource)
}
