// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

const (
	// leaderWait is how long a write waits for a leader. A new one is chosen within a second or two.
	leaderWait = 5 * time.Second
	// leaderRetry is how long a refused request rests.
	leaderRetry = 50 * time.Millisecond
)

// throughLeader has members of etcd without a leader refuse requests, and takes those to the next member. A member that is cut off from
// the others would otherwise let each request wait for seconds, and every third comes to it. What it refuses it has not begun to do.
func throughLeader(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if !strings.HasPrefix(method, "/etcdserverpb.KV/") && !strings.HasPrefix(method, "/etcdserverpb.Lease/") {
		return invoke(ctx, method, request, reply, connection, options...)
	}
	ctx = clientv3.WithRequireLeader(ctx)
	began := time.Now()
	for {
		err := invoke(ctx, method, request, reply, connection, options...)
		if err == nil || !isCode(err, rpctypes.ErrNoLeader) {
			return err
		}
		select {
		case <-time.After(leaderRetry):
		case <-ctx.Done():
			return err
		}
		// Reads the client makes again by itself, a hundred times.
		if method == "/etcdserverpb.KV/Range" || time.Since(began) > leaderWait {
			return err
		}
	}
}
