// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"

	"google.golang.org/grpc/metadata"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
)

// ownWatchStream gives a resource a watch stream of its own. The etcd client keeps one stream for each set of outgoing
// metadata; on a shared stream one slow resource would delay the progress notifications, and so the consistent lists, of
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
