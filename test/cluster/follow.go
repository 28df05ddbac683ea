// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Follow hands all that etcd commits after a revision to take, until the context ends. Members of etcd may be away in between; reached
// says how far take has come. Events are of whole revisions: etcd does not spread one over two responses.
func Follow(ctx context.Context, client *clientv3.Client, reached func() int64, take func([]*clientv3.Event) error) error {
	for ctx.Err() == nil {
		if err := followFrom(ctx, client, reached()+1, take); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func followFrom(ctx context.Context, client *clientv3.Client, next int64, take func([]*clientv3.Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for response := range client.Watch(clientv3.WithRequireLeader(ctx), "/", clientv3.WithPrefix(), clientv3.WithRev(next)) {
		if response.CompactRevision > 0 {
			return fmt.Errorf("revision %d was compacted before it was seen", next)
		}
		if response.Err() != nil {
			return nil //nolint:nilerr // the next watch goes on from where this one was
		}
		if err := take(response.Events); err != nil {
			return err
		}
	}
	return nil
}
