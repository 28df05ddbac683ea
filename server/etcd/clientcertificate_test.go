// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// cutter is a way to a server whose connections can be cut.
type cutter struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
}

func (c *cutter) run(server string) {
	for {
		client, err := c.Accept()
		if err != nil {
			return
		}
		behind, err := net.Dial("tcp", server) //nolint:noctx // it is cut otherwise
		if err != nil {
			_ = client.Close()
			continue
		}
		c.mu.Lock()
		c.open = append(c.open, client, behind)
		c.mu.Unlock()
		for from, to := range map[net.Conn]net.Conn{client: behind, behind: client} {
			go func() {
				_, _ = io.Copy(to, from)
				_ = to.Close()
			}()
		}
	}
}

func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, connection := range c.open {
		_ = connection.Close()
	}
	c.open = nil
}

// TestClientCertificateIsReadAgain has the certificate for etcd expire. Connections that are open go on, and new ones are made as soon as
// somebody has put a new one in place, without a restart.
func TestClientCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	f := makeFiles(t)
	server := startServer(t, "https://127.0.0.1:0", func(c *embed.Config) {
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = f.serverCert, f.serverKey
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = f.ca, true
	})
	way := &cutter{Listener: listen(t, "tcp", "127.0.0.1:0")}
	t.Cleanup(func() {
		_ = way.Close()
		way.cut()
	})
	go way.run(strings.TrimPrefix(server, "https://"))
	renew := func(lifetime time.Duration) {
		lifetimes := pki.NewLifetimes()
		lifetimes.Leaf = lifetime
		directory, err := pki.OpenFor(filepath.Dir(f.ca), lifetimes)
		if err != nil {
			t.Fatal(err)
		}
		authority, err := directory.Authority("ca", "etcd-ca")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(f.cert); err != nil {
			t.Fatal(err)
		}
		if _, err := authority.Client("client", "annex"); err != nil {
			t.Fatal(err)
		}
	}
	b, err := complete(t, "", external("https://"+way.Addr().String()), func(o *Options) { o.CAFile, o.CertFile, o.KeyFile = f.ca, f.cert, f.key }).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	wantHealth := func(want string) {
		t.Helper()
		eventually(t, func() string {
			if got := fmt.Sprint(b.HealthCheck().Check(nil)); !strings.Contains(got, want) {
				return "health is " + got
			}
			return ""
		})
	}
	renew(-time.Minute)
	if err := put(t.Context(), b, "/key", "over the connection of before"); err != nil {
		t.Error(err)
	}
	way.cut()
	wantHealth("tls: expired certificate")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err = complete(t, "", external("https://"+way.Addr().String()), func(o *Options) { o.CAFile, o.CertFile, o.KeyFile = f.ca, f.cert, f.key }).Start(ctx)
	wantError(t, err, "waiting for etcd at https://", "tls: expired certificate")

	renew(time.Hour)
	wantHealth("<nil>")
	if err := put(t.Context(), b, "/other", "over a new one"); err != nil {
		t.Error(err)
	}
}
