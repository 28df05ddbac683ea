// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
)

// warningStore warns clients about objects that their lists leave out, and rejects a deletecollection that would leave some behind.
type warningStore struct {
	storage.Interface
	unreadable *unreadable
	// etcdKey returns the key in etcd for one of the registry.
	etcdKey func(key string) string
}

func (w warningStore) GetList(ctx context.Context, key string, options storage.ListOptions, list runtime.Object) error {
	if err := w.Interface.GetList(ctx, key, options, list); err != nil {
		return err
	}
	return w.warn(ctx, key, options)
}

func (w warningStore) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		if err := w.warn(ctx, key, options); err != nil {
			return nil, err
		}
	}
	return w.Interface.Watch(ctx, key, options)
}

func (w warningStore) warn(ctx context.Context, key string, options storage.ListOptions) error {
	if !w.unreadable.any() {
		return nil
	}
	// A list that is not recursive is about one object.
	listed := w.etcdKey(key)
	keys, reasons := w.unreadable.matching(func(key string) bool {
		return key == listed || options.Recursive && strings.HasPrefix(key, listed+"/")
	})
	if len(keys) == 0 {
		return nil
	}
	// Deletion of a namespace must not succeed while objects remain; readers are better served with the rest.
	if info, ok := request.RequestInfoFrom(ctx); ok && info.Verb == "deletecollection" {
		return w.unreadable.refuse(keys, reasons)
	}
	warning.AddWarning(ctx, "", w.unreadable.describe(keys))
	return nil
}
