// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
)

const (
	// embeddedMaxBytes is how large a value the embedded etcd takes: more than any HTTP body of 3 MiB becomes.
	embeddedMaxBytes = 8 << 20
	// requestOverhead is room for key and comparisons around the value.
	requestOverhead = 64 << 10
	// tick is what start-up waits a few of: a single member elects itself after an election timeout.
	tick     = 25 * time.Millisecond
	election = 10 * tick
	// slowRequest is how long a request takes before etcd warns of it. Its default of 100 ms is for disks of its own.
	slowRequest = time.Second
	// progressInterval is how often etcd tells an idle watch how far it is; etcd's default is 10 minutes. Without it clients of a
	// quiet resource get no bookmarks, and list anew once the revision they know is compacted.
	progressInterval = 5 * time.Second
	// lockInterval is how often the data directory is looked at.
	lockInterval = 2 * time.Second
	// closeTimeout bounds the wait for an etcd that died, or lost its directory.
	closeTimeout = 5 * time.Second
)

// embed starts etcd in the data directory and returns a client that calls it directly.
func (b *Backend) embed(ctx context.Context, c CompletedOptions) (*clientv3.Client, error) {
	lock := c.Lock
	if lock == nil {
		var err error
		if lock, err = waitForDataDir(ctx, c.dataDir, c.LockTimeout); err != nil {
			return nil, err
		}
		b.onStop(func() {
			if err := lock.Unlock(); err != nil {
				klog.Background().Error(err, "unlocking the data directory")
			}
		})
	}
	var err error
	if b.StoreID, err = directoryID(c.dataDir); err != nil {
		return nil, err
	}
	socket, err := b.socketPath(c.dataDir)
	if err != nil {
		return nil, err
	}
	if err = checkWAL(dataOf(c.dataDir), version.Version); err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", c.dataDir, dataError(err))
	}
	died := make(chan string, 1)
	server, err := launch(embeddedConfig(c, socket, newLogger(klog.FromContext(ctx), died)), died)
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", c.dataDir, err)
	}
	// The context is for the start; what runs on keeps only its logger.
	running := context.WithoutCancel(ctx)
	watching, stopWatching := context.WithCancel(running)
	watched := make(chan struct{})
	var limited bool
	b.onStop(func() {
		stopWatching()
		<-watched
		closeServer(server, limited)
	})
	go func() {
		defer close(watched)
		limited = b.watchServer(watching, server, lock, died)
	}()

	select {
	case <-server.Server.ReadyNotify():
		return b.directClient(running, server, socket, c.QuotaBytes)
	case err := <-b.failed:
		return nil, fmt.Errorf("start etcd in %s: %w", c.dataDir, err)
	case <-ctx.Done():
		return nil, fmt.Errorf("start etcd in %s: %w", c.dataDir, ctx.Err())
	}
}

// launch starts etcd in a goroutine of its own, because a data directory that it cannot make sense of makes it panic, or end
// some goroutine for good (see newLogger), rather than return an error.
func launch(config *embed.Config, died <-chan string) (*embed.Etcd, error) {
	type result struct {
		server *embed.Etcd
		err    error
	}
	results := make(chan result, 1)
	go func() {
		defer func() {
			if panicked := recover(); panicked != nil {
				results <- result{err: unreadable(fmt.Sprint(panicked))}
			}
		}()
		server, err := embed.StartEtcd(config)
		results <- result{server, err}
	}()
	select {
	case out := <-results:
		return out.server, dataError(out.err)
	case message := <-died:
		return nil, unreadable(message)
	}
}

func unreadable(why string) error {
	return fmt.Errorf("its data cannot be read: %s; restore the directory from a backup or choose another --data-dir", why)
}

// watchServer reports an etcd that ends although nobody stopped it, or loses its directory. It returns whether etcd may never be down.
func (b *Backend) watchServer(ctx context.Context, server *embed.Etcd, lock *Lock, died <-chan string) bool {
	ticker := time.NewTicker(lockInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case err := <-server.Err():
			if err == nil {
				err = errors.New("it stopped serving")
			}
			b.failed <- fmt.Errorf("etcd ended: %w", err)
			return false
		case message := <-died:
			b.failed <- fmt.Errorf("etcd ended: %s", message)
			return true
		case <-server.Server.StopNotify():
			b.failed <- errors.New("etcd ended by itself; see its log above")
			return false
		case <-ticker.C:
			if err := lock.check(); err != nil {
				b.failed <- err
				return true
			}
		}
	}
}

// closeServer waits for etcd to be down, but not longer than closeTimeout for one whose goroutines died or whose directory is gone.
func closeServer(server *embed.Etcd, limited bool) {
	if !limited {
		server.Close()
		return
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		server.Close()
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
}

// directClient calls into the server for keys, watches and leases, and dials the socket for what asks for an endpoint, such
// as the check whether etcd supports progress notifications.
func (b *Backend) directClient(ctx context.Context, server *embed.Etcd, socket string, quota int64) (*clientv3.Client, error) {
	endpoint := (&url.URL{Scheme: "unix", Path: socket}).String()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd's socket: %w", err)
	}
	direct := v3client.New(server.Server)
	b.onStop(func() {
		closeClient(client)
		closeClient(direct)
	})
	client.KV = directKV{KV: direct.KV, socket: client.KV}
	client.Watcher, client.Lease = direct.Watcher, direct.Lease
	b.Transport = storagebackend.TransportConfig{ServerList: []string{endpoint}}
	b.quotaAlarm = newQuotaAlarm(server.Server, client, quota)
	b.onStop(b.quotaAlarm.start(ctx))
	return client, nil
}

// directKV sends streamed lists through the socket: calling the server directly does not support them, and the first refusal
// would turn them off for every other store in the process.
type directKV struct {
	clientv3.KV
	socket clientv3.KV
}

func (kv directKV) GetStream(ctx context.Context, key string, opts ...clientv3.OpOption) (clientv3.GetStreamChan, error) {
	return kv.socket.GetStream(ctx, key, opts...)
}

// dataOf is the part of a data directory that is etcd's.
func dataOf(dataDir string) string { return filepath.Join(dataDir, "etcd", "data") }

func embeddedConfig(c CompletedOptions, socket string, logger *zap.Logger) *embed.Config {
	endpoint := url.URL{Scheme: "unix", Path: socket}
	config := embed.NewConfig()
	config.Name = "annex"
	config.Dir = dataOf(c.dataDir)
	config.ListenClientUrls = []url.URL{endpoint}
	config.AdvertiseClientUrls = []url.URL{endpoint}
	// A single member has no peers. It must advertise something to itself, which nobody ever dials.
	config.ListenPeerUrls = nil
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.EnableGRPCGateway = false
	config.TickMs = uint(tick.Milliseconds())
	config.ElectionMs = uint(election.Milliseconds())
	config.QuotaBackendBytes = c.QuotaBytes
	config.MaxRequestBytes = embeddedMaxBytes + requestOverhead
	config.WatchProgressNotifyInterval = progressInterval
	config.WarningApplyDuration = slowRequest
	config.WarningUnaryRequestDuration = slowRequest
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger)
	return config
}
