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

// known refuses watches from versions that etcd has not reached. It has reached all that it ever told of, so the client knows the version
// from before somebody restored older data. A watch cache would keep back all events up to it, and the client would take what it has for
// what there is; told that the version is gone, it lists anew.
type known struct {
	storage.Interface
	// newest is the highest version that etcd is known to have reached.
	newest *atomic.Uint64
}

func (k known) Watch(ctx context.Context, key string, options storage.ListOptions) (watch.Interface, error) {
	version, err := k.Versioner().ParseResourceVersion(options.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if version > k.newest.Load() {
		current, err := k.GetCurrentResourceVersion(ctx)
		if err != nil {
			return nil, err
		}
		if version > current {
			return nil, apierrors.NewResourceExpired(fmt.Sprintf("resource version %d is not known: the store is at %d, as older data was restored; list again", version, current))
		}
		k.raise(current)
	}
	return k.Interface.Watch(ctx, key, options)
}

func (k known) raise(version uint64) {
	for {
		before := k.newest.Load()
		if version <= before || k.newest.CompareAndSwap(before, version) {
			return
		}
	}
}
