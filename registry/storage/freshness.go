// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// freshness rejects watches from resource versions that etcd has not reached. The client has such a version from before older data was
// restored. The watch cache would withhold all events up to that version, and the client would keep its outdated objects; the error Expired
// makes it list again.
type freshness struct {
	storage.Interface
	// newest is the highest version observed in etcd.
	newest *atomic.Uint64
}

func (f freshness) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	version, err := f.Versioner().ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if version > f.newest.Load() {
		current, err := f.GetCurrentResourceVersion(ctx)
		if err != nil {
			return nil, err
		}
		if version > current {
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("resource version %d is not known: the store is at %d, as older data was restored; list again", version, current))
		}
		f.raise(current)
	}
	return f.Interface.Watch(ctx, key, options)
}

func (f freshness) raise(version uint64) {
	for {
		before := f.newest.Load()
		if version <= before || f.newest.CompareAndSwap(before, version) {
			return
		}
	}
}
