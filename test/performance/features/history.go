// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// write is one change of a key.
type write struct {
	at       time.Time
	key      string
	value    []byte
	revision int64
	deleted  bool
}

// history follows all writes below a prefix, in etcd itself.
type history struct {
	client *clientv3.Client
	stop   context.CancelFunc
	done   chan struct{}

	prefix string

	mu  sync.Mutex
	err error
}

// follow follows writes from now on, each of which the function sees.
func follow(ctx context.Context, socket, prefix string, see func(write)) (*history, error) {
	client, err := connect(ctx, socket)
	if err != nil {
		return nil, err
	}
	// From the revision on that there is now, whatever the watch takes to begin.
	now, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("read etcd: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	h := &history{client: client, stop: stop, done: make(chan struct{}), prefix: prefix}
	watch := client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(now.Header.Revision+1))
	go func() {
		defer close(h.done)
		for response := range watch {
			if err := response.Err(); err != nil && ctx.Err() == nil {
				h.mu.Lock()
				h.err = fmt.Errorf("follow etcd: %w", err)
				h.mu.Unlock()
			}
			at := time.Now()
			for _, event := range response.Events {
				w := write{at: at, key: string(event.Kv.Key), value: event.Kv.Value, revision: event.Kv.ModRevision, deleted: event.Type == clientv3.EventTypeDelete}
				see(w)
			}
		}
	}()
	return h, nil
}

func connect(ctx context.Context, socket string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	return client, nil
}

// count is how many writes there were of all objects that are stored now. It asks etcd, whose watches may lag behind.
func (h *history) count(ctx context.Context) (int, error) {
	keys, err := h.client.Get(ctx, h.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("count writes in etcd: %w", err)
	}
	writes := 0
	for _, kv := range keys.Kvs {
		writes += int(kv.Version)
	}
	return writes, nil
}

// close ends the watch. The error says that it has not seen all.
func (h *history) close() error {
	h.stop()
	<-h.done
	_ = h.client.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
