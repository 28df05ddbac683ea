// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
)

const (
	// embeddedMaxBytes is how large a request the embedded etcd accepts: more than any HTTP body of 3 MiB becomes.
	embeddedMaxBytes = 8 << 20
	// maxSocketPath is what fits into a socket address on Linux.
	maxSocketPath = 107
	// tick is what start-up waits a few of: a single member elects itself after an election timeout.
	tick     = 25 * time.Millisecond
	election = 10 * tick
)

// embed starts etcd in the data directory and returns a client that calls it directly.
func (b *Backend) embed(ctx context.Context, c CompletedOptions) (*clientv3.Client, error) {
	if c.Lock == nil {
		lock, err := LockDataDir(c.dataDir)
		if err != nil {
			return nil, err
		}
		b.onStop(func() {
			if err := lock.Unlock(); err != nil {
				klog.Background().Error(err, "unlocking the data directory")
			}
		})
	}
	if err := checkFormat(c.dataDir); err != nil {
		return nil, err
	}
	socket, err := b.socketPath(c.dataDir)
	if err != nil {
		return nil, err
	}
	server, err := embed.StartEtcd(embeddedConfig(c, socket))
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", c.dataDir, err)
	}
	b.onStop(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return nil, fmt.Errorf("start etcd in %s: %w", c.dataDir, err)
	case <-ctx.Done():
		return nil, fmt.Errorf("start etcd in %s: %w", c.dataDir, ctx.Err())
	}
	stopped := make(chan struct{})
	b.onStop(func() { close(stopped) })
	go b.watchServer(server, stopped)
	return b.directClient(server, socket, c.QuotaBytes)
}

// watchServer reports an etcd that ends although nobody stopped it.
func (b *Backend) watchServer(server *embed.Etcd, stopped <-chan struct{}) {
	select {
	case <-stopped:
	case err := <-server.Err():
		b.failed <- fmt.Errorf("etcd ended: %w", err)
	case <-server.Server.StopNotify():
		select {
		case <-stopped:
		default:
			b.failed <- fmt.Errorf("etcd ended by itself; see its log above")
		}
	}
}

// directClient calls into the server for keys, watches and leases, and dials the socket for what asks for an endpoint, such
// as the check whether etcd supports progress notifications.
func (b *Backend) directClient(server *embed.Etcd, socket string, quota int64) (*clientv3.Client, error) {
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
	client.KV, client.Watcher, client.Lease = direct.KV, direct.Watcher, direct.Lease
	b.Transport = storagebackend.TransportConfig{ServerList: []string{endpoint}}
	b.space = newSpaceKeeper(server.Server, client, quota)
	b.onStop(b.space.start())
	return client, nil
}

// socketPath returns where etcd listens: in the data directory, or, since an address has room for little, in a short one.
func (b *Backend) socketPath(dataDir string) (string, error) {
	dir := filepath.Join(dataDir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create etcd's directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return "", fmt.Errorf("close etcd's directory to other users: %w", err)
	}
	absolute, err := filepath.Abs(filepath.Join(dir, "client.sock"))
	if err != nil {
		return "", fmt.Errorf("find etcd's directory: %w", err)
	}
	if len(absolute) <= maxSocketPath {
		return absolute, nil
	}
	// MkdirTemp makes directories that nobody else can enter.
	short, err := os.MkdirTemp("", "annex-")
	if err != nil {
		return "", fmt.Errorf("create a directory for etcd's socket, whose path in the data directory is longer than %d bytes: %w", maxSocketPath, err)
	}
	b.onStop(func() {
		if err := os.RemoveAll(short); err != nil {
			klog.Background().Error(err, "removing the directory of etcd's socket")
		}
	})
	return filepath.Join(short, "client.sock"), nil
}

func embeddedConfig(c CompletedOptions, socket string) *embed.Config {
	endpoint := url.URL{Scheme: "unix", Path: socket}
	config := embed.NewConfig()
	config.Name = "annex"
	config.Dir = filepath.Join(c.dataDir, "etcd", "data")
	config.ListenClientUrls = []url.URL{endpoint}
	config.AdvertiseClientUrls = []url.URL{endpoint}
	// A single member has no peers. It must advertise something to itself, which nobody ever dials.
	config.ListenPeerUrls = nil
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.TickMs = uint(tick.Milliseconds())
	config.ElectionMs = uint(election.Milliseconds())
	config.QuotaBackendBytes = c.QuotaBytes
	config.MaxRequestBytes = embeddedMaxBytes
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newLogger())
	return config
}
