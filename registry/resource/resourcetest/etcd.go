// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcetest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// shared is the etcd of a test package, which Main starts.
var shared *clientv3.Client

// Main runs a package's tests with one etcd for all of them; call it from TestMain.
func Main(m *testing.M) {
	code, err := runWithEtcd(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// Etcd is the package's etcd, for tests that start servers in other processes. Its endpoint is a socket.
func Etcd() *clientv3.Client { return shared }

func runWithEtcd(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "annex-etcd-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	socket := url.URL{Scheme: "unix", Path: filepath.Join(dir, "client.sock")}
	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "data")
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.ListenPeerUrls = nil
	config.ListenClientUrls = []url.URL{socket}
	config.AdvertiseClientUrls = []url.URL{socket}
	config.TickMs, config.ElectionMs = 25, 250
	config.UnsafeNoFsync = true
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		return 0, fmt.Errorf("starting etcd: %w", err)
	}
	defer etcd.Close()
	<-etcd.Server.ReadyNotify()
	shared, err = clientv3.New(clientv3.Config{Endpoints: []string{socket.String()}, Logger: zap.NewNop()})
	if err != nil {
		return 0, fmt.Errorf("connecting to etcd: %w", err)
	}
	defer shared.Close()
	return m.Run(), nil
}
