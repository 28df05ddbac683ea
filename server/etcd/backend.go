// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/registry/storage"
)

// compactionInterval is how long old revisions are kept at least, as in other apiservers.
const compactionInterval = 5 * time.Minute

// Backend is a running store, or the connection to one.
type Backend struct {
	// Client is shared by all resources; its optimistic writes go through the guard of registry/resource.
	Client *kubernetes.Client
	// Transport is for what dials by itself, such as the metrics of the database size.
	Transport storagebackend.TransportConfig
	// StoreID is the id of the data directory, which only one process has at a time; empty where etcd is external. Whoever was
	// the owner before is dead.
	StoreID string

	encryptionConfig string
	encryptionReload bool
	compactor        etcd3.Compactor
	failed           chan error
	health           recentHealth
	// ping returns why an external etcd cannot be reached; nil if etcd is embedded.
	ping       func(context.Context) error
	quotaAlarm *quotaAlarm
	// stops run in reverse order. Servers add theirs side by side.
	stopsLock sync.Mutex
	stops     []func()
	stopOnce  sync.Once
}

// Start starts the embedded etcd, or connects to the external one, and returns once it answers. It waits while an external
// etcd is away; the context ends the waiting.
func (c CompletedOptions) Start(ctx context.Context) (*Backend, error) {
	b := &Backend{
		encryptionConfig: c.EncryptionConfig,
		encryptionReload: c.EncryptionReload,
		failed:           make(chan error, 1),
	}
	err := b.start(ctx, c)
	if err != nil {
		b.Stop()
		return nil, err
	}
	return b, nil
}

func (b *Backend) start(ctx context.Context, c CompletedOptions) error {
	var plain *clientv3.Client
	var err error
	if len(c.Servers) > 0 {
		plain, err = b.connect(ctx, c)
	} else {
		plain, err = b.embed(ctx, c)
	}
	if err != nil {
		return err
	}
	b.Client = storage.NewClient(plain, func(client kubernetes.Interface) kubernetes.Interface {
		return errorTranslator{Interface: client, maxBytes: embeddedMaxBytes, onFull: b.quotaAlarm.wake, external: b.quotaAlarm == nil}
	})

	compactor := etcd3.NewCompactor(plain, compactionInterval, clock.RealClock{}, nil)
	b.compactor = compactor
	b.onStop(compactor.Stop)
	return nil
}

// Failed yields an error if the embedded etcd ends by itself or its data directory is taken away. The process cannot go on
// then.
func (b *Backend) Failed() <-chan error { return b.failed }

// Stop closes the client, stops the embedded etcd and gives the data directory free. It returns when all that is done, and
// may be called more than once.
func (b *Backend) Stop() {
	b.stopOnce.Do(func() {
		b.stopsLock.Lock()
		defer b.stopsLock.Unlock()
		for _, stop := range slices.Backward(b.stops) {
			stop()
		}
	})
}

// StopWithin stops an embedded etcd as Stop does, but returns after the time at the latest. It is for a process that has to end
// while servers still run; an external etcd has nothing to gain from it.
func (b *Backend) StopWithin(limit time.Duration) {
	if b.StoreID == "" {
		return
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		b.Stop()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-stopped:
	case <-timer.C:
	}
}

func (b *Backend) onStop(stop func()) {
	b.stopsLock.Lock()
	defer b.stopsLock.Unlock()
	b.stops = append(b.stops, stop)
}

// probe reads one key with quorum.
func probe(ctx context.Context, client *clientv3.Client, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := client.Get(ctx, "/annex.io/health")
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", timeout)
	}
	return err
}
