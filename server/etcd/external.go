// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
)

const (
	probeTimeout  = 2 * time.Second
	probeInterval = 200 * time.Millisecond
	// refusalWait is how long a server gets to refuse a certificate.
	refusalWait = 500 * time.Millisecond
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
		// How much is too much is for the cluster to say: the client's own limit is smaller than what a cluster may be set to.
		MaxCallSendMsgSize: 2 * embeddedMaxBytes,
		DialOptions:        []grpc.DialOption{grpc.WithChainUnaryInterceptor(throughLeader)},
		Logger:             zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("connect to --etcd-servers %s: %w", strings.Join(c.Servers, ","), err)
	}
	b.onStop(func() { closeClient(client) })
	b.Transport = storagebackend.TransportConfig{
		ServerList: c.Servers, CertFile: c.CertFile, KeyFile: c.KeyFile, TrustedCAFile: c.CAFile,
	}
	b.ping = func(ctx context.Context) error { return ping(ctx, c.Servers, security) }
	return client, waitForAnswer(ctx, client, c.Servers, security)
}

func waitForAnswer(ctx context.Context, client *clientv3.Client, servers []string, security *tls.Config) error {
	var said time.Time
	reason := errors.New("not asked yet")
	for {
		// The client tries again by itself until time is up, and then does not say why.
		err := ping(ctx, servers, security)
		if err == nil {
			err = probe(ctx, client, probeTimeout)
		}
		if err == nil {
			if !said.IsZero() {
				klog.FromContext(ctx).Info("etcd answers", "servers", servers)
			}
			return nil
		}
		if end := ended(ctx); end != nil {
			// What failed now failed for the context.
			return fmt.Errorf("waiting for etcd at %s: %w; last reason: %w", strings.Join(servers, ","), end, reason)
		}
		reason = err
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

// ended returns why the context is over. A connection may time out at the context's deadline before the context's own timer fires.
func ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// ping connects to the servers until one accepts, or returns the errors of all.
func ping(ctx context.Context, servers []string, security *tls.Config) error {
	var errs []error
	for _, server := range servers {
		err := pingServer(ctx, server, security)
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
	}
	return utilerrors.NewAggregate(errs)
}

func pingServer(ctx context.Context, server string, security *tls.Config) error {
	parsed, err := url.Parse(server)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	network, address := "tcp", parsed.Host
	if strings.HasPrefix(parsed.Scheme, "unix") {
		network, address = "unix", parsed.Host+parsed.Path
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	if parsed.Scheme == "https" {
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		if security != nil {
			config = security.Clone()
		}
		config.ServerName, config.NextProtos = parsed.Hostname(), []string{"h2"}
		secured := tls.Client(connection, config)
		if err = secured.HandshakeContext(ctx); err == nil {
			err = refusal(secured)
		}
		connection = secured
	}
	if closeErr := connection.Close(); err == nil {
		err = closeErr
	}
	return err
}

// refusal returns what a server thinks of the client's certificate, if that is nothing good. With TLS 1.3 it says so after the handshake;
// one that is content waits for a request, or begins with the settings of HTTP/2.
func refusal(connection *tls.Conn) error {
	if err := connection.SetReadDeadline(time.Now().Add(refusalWait)); err != nil {
		return err
	}
	_, err := connection.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

func closeClient(client *clientv3.Client) {
	if err := client.Close(); err != nil && client.Ctx().Err() == nil {
		klog.Background().Error(err, "closing the etcd client")
	}
}
