// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"fmt"
	"path"
	"strconv"

	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
)

// Reader reads stored objects of one kind together with where they are.
type Reader[T Object] struct {
	store *genericregistry.Store
	// etcdPrefix stands before the store's keys in etcd.
	etcdPrefix string
}

// Position is the key of an object in etcd, in full, and its mod revision; 0 if there is no such object.
type Position struct {
	Key      string
	Revision int64
}

// NewReader returns a reader of what a kind's store, which InstallStore made, has.
func NewReader[T Object](group *Group, kind Kind[T], store *genericregistry.Store) (*Reader[T], error) {
	prefix, err := etcdPrefix(group.getter, store.DefaultQualifiedResource, newObject[T]())
	if err != nil {
		return nil, err
	}
	return &Reader[T]{store: store, etcdPrefix: prefix}, nil
}

// Read asks etcd, with quorum. The namespace is that of the context.
func (r *Reader[T]) Read(ctx context.Context, name string) (T, Position, error) {
	return r.get(ctx, name, "")
}

// Recall asks the watch cache, and etcd only before that is filled.
func (r *Reader[T]) Recall(ctx context.Context, name string) (T, Position, error) {
	return r.get(ctx, name, "0")
}

func (r *Reader[T]) get(ctx context.Context, name, notBefore string) (T, Position, error) {
	var none T
	key, err := r.store.KeyFunc(ctx, name)
	if err != nil {
		return none, Position{}, err
	}
	position := Position{Key: r.etcdKey(key)}
	out := r.store.NewFunc().(T)
	if err = r.store.Storage.Get(ctx, key, storage.GetOptions{IgnoreNotFound: true, ResourceVersion: notBefore}, out); err != nil {
		return none, Position{}, fmt.Errorf("reading %s %s: %w", r.store.DefaultQualifiedResource, name, err)
	}
	if out.GetResourceVersion() == "" {
		return none, position, nil
	}
	if position.Revision, err = strconv.ParseInt(out.GetResourceVersion(), 10, 64); err != nil {
		return none, Position{}, fmt.Errorf("reading %s %s: %w", r.store.DefaultQualifiedResource, name, err)
	}
	return out, position, nil
}

// etcdKey is the key under which etcd3's store keeps what the registry calls key.
func (r *Reader[T]) etcdKey(key string) string { return path.Join("/", r.etcdPrefix, key) }
