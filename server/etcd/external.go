// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
)

const (
	// externalMaxBytes is how large a request an etcd accepts by default.
	externalMaxBytes = 1536 << 10
	probeTimeout     = 2 * time.Second
	probeInterval    = 200 * time.Millisecond
	// sayInterval is how often waiting is reported.
	sayInterval = 3 * time.Second
)

// connect dials the external etcd and waits until it answers.
func (b *Backend) connect(ctx context.Context, c CompletedOptions) (*clientv3.Client, error) {
	var security *tls.Config
	if c.CAFile != "" || c.CertFile != "" {
		var err error
		info := transport.TLSInfo{CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.CAFile}
		if security, err = info.ClientConfig(); err != nil {
			return nil, fmt.Errorf("set up TLS for --etcd-servers: %w", err)
		}
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            c.Servers,
		TLS:                  security,
		DialTimeout:          20 * time.Second,
		DialKeepAliveTime:    30 * time.Second,
		DialKeepAliveTimeout: 10 * time.Second,
		MaxCallSendMsgSize:   2 * embeddedMaxBytes,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to --etcd-servers %s: %w", strings.Join(c.Servers, ","), err)
	}
	b.onStop(func() { closeClient(client) })
	b.Transport = storagebackend.TransportConfig{
		ServerList: c.Servers, CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.CAFile,
	}
	return client, waitForAnswer(ctx, client, c.Servers)
}

func waitForAnswer(ctx context.Context, client *clientv3.Client, servers []string) error {
	var said time.Time
	for {
		err := probe(ctx, client, probeTimeout)
		if err == nil {
			if !said.IsZero() {
				klog.FromContext(ctx).Info("etcd answers", "servers", servers)
			}
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for etcd at %s: %w; last answer: %w", strings.Join(servers, ","), ctx.Err(), err)
		}
		if time.Since(said) >= sayInterval {
			said = time.Now()
			klog.FromContext(ctx).Info("waiting for etcd", "servers", strings.Join(servers, ","), "reason", err.Error())
		}
		select {
		case <-time.After(probeInterval):
		case <-ctx.Done():
		}
	}
}

func closeClient(client *clientv3.Client) {
	if err := client.Close(); err != nil && client.Ctx().Err() == nil {
		klog.Background().Error(err, "closing the etcd client")
	}
}
