// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
)

// ControlPlane is a control plane in this process, on an etcd of its own.
type ControlPlane struct {
	t testing.TB
	// Dir holds its files, URL is its address, and Startup is the duration of the last start.
	Dir     string
	URL     string
	Startup time.Duration
	// Adjust changes the options of the next start, and AdjustEtcd those of its etcd.
	Adjust     func(*controlplane.Options)
	AdjustEtcd func(*etcd.Options)
	// Backend is the etcd of the present start.
	Backend *etcd.Backend
	// Serving, Clients and FrontProxy sign the certificates of servers, users and aggregators; Proxy is the certificate of its aggregator.
	Serving, Clients, FrontProxy *pki.Authority
	Proxy                        pki.Pair

	// users counts the certificates of users.
	users    atomic.Int64
	stopOnce *sync.Once
	stopped  chan struct{}
	cancel   context.CancelFunc
}

// StartControlPlane runs a control plane until the test ends. adjust may be nil.
func StartControlPlane(t testing.TB, adjust func(*controlplane.Options)) *ControlPlane {
	t.Helper()
	c := NewControlPlane(t, adjust)
	c.Start()
	return c
}

// NewControlPlane returns a control plane with certificates, which does not run yet.
func NewControlPlane(t testing.TB, adjust func(*controlplane.Options)) *ControlPlane {
	t.Helper()
	c := &ControlPlane{t: t, Dir: t.TempDir(), Adjust: adjust}
	directory := Must[*pki.Directory](t)(pki.Open(filepath.Join(c.Dir, "pki")))
	for name, authority := range map[string]**pki.Authority{"serving": &c.Serving, "client": &c.Clients, "front-proxy": &c.FrontProxy} {
		*authority = Must[*pki.Authority](t)(directory.Authority(name, name))
	}
	c.Proxy = Must[pki.Pair](t)(c.FrontProxy.Client("proxy", "annex-aggregator"))
	t.Cleanup(c.Stop)
	return c
}

// Beside returns a control plane with the same authorities and an etcd of its own, which does not run yet.
func (c *ControlPlane) Beside(adjust func(*controlplane.Options)) *ControlPlane {
	c.t.Helper()
	beside := &ControlPlane{t: c.t, Dir: c.t.TempDir(), Adjust: adjust, Serving: c.Serving, Clients: c.Clients, FrontProxy: c.FrontProxy, Proxy: c.Proxy}
	c.t.Cleanup(beside.Stop)
	return beside
}

// Start runs the control plane on the data of former runs and waits until it is ready.
func (c *ControlPlane) Start() {
	c.t.Helper()
	began := time.Now()
	server := c.Launch()
	select {
	case <-server.Ready():
		c.Startup = time.Since(began)
	case <-c.stopped:
		c.t.Fatal("the control plane ended before it was ready")
	case <-time.After(startTimeout):
		c.t.Fatalf("the control plane was not ready within %s", startTimeout)
	}
}

// Launch is Start without the wait.
func (c *ControlPlane) Launch() *controlplane.Server {
	c.t.Helper()
	store, dir := etcd.NewOptions(), filepath.Join(c.Dir, "data")
	if c.AdjustEtcd != nil {
		c.AdjustEtcd(store)
	}
	if len(store.Servers) > 0 {
		dir = ""
	}
	completed, err := store.Complete(dir)
	if err != nil {
		c.t.Fatal(err)
	}
	if err = os.MkdirAll(filepath.Join(c.Dir, "data"), 0o700); err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if c.Backend, err = completed.Start(ctx); err != nil {
		cancel()
		c.t.Fatal(err)
	}
	server, backend := controlplane.New(c.Options(), c.Backend), c.Backend
	c.stopOnce, c.stopped, c.cancel = &sync.Once{}, make(chan struct{}), cancel
	stopped := c.stopped
	go func() {
		defer close(stopped)
		if err := server.Run(ctx); err != nil {
			c.t.Errorf("run the control plane: %v", err)
		}
		backend.Stop()
	}()
	return server
}

// Options are for a server on a port of its own, which is at URL from now on.
func (c *ControlPlane) Options() controlplane.CompletedOptions {
	c.t.Helper()
	o := c.RawOptions()
	c.URL = "https://" + o.Serving.Listener.Addr().String()
	return Must[controlplane.CompletedOptions](c.t)(o.Complete())
}

// RawOptions are those that Options completes.
func (c *ControlPlane) RawOptions() *controlplane.Options {
	c.t.Helper()
	serving := Must[pki.Pair](c.t)(c.Serving.Serving("host", "localhost", "127.0.0.1"))
	o := controlplane.NewOptions()
	o.Serving.BindAddress, o.Serving.Listener = net.IPv4(127, 0, 0, 1), Listen(c.t)
	o.Serving.CertFile, o.Serving.KeyFile = serving.CertFile, serving.KeyFile
	o.ClientCAFile = c.Clients.CertFile()
	o.RequestHeader.ClientCAFile = c.FrontProxy.CertFile()
	o.RequestHeader.AllowedNames = []string{"annex-aggregator"}
	o.ProxyClientCertFile, o.ProxyClientKeyFile = c.Proxy.CertFile, c.Proxy.KeyFile
	o.Authorizers = []authorizer.Authorizer{refusalsFail(c.t)}
	o.Metrics = processMetrics{}
	if c.Adjust != nil {
		c.Adjust(o)
	}
	return o
}

// BeginStop starts the shutdown.
func (c *ControlPlane) BeginStop() { c.cancel() }

// Stop ends the control plane and waits.
func (c *ControlPlane) Stop() {
	if c.stopOnce == nil {
		return
	}
	c.stopOnce.Do(func() {
		c.cancel()
		select {
		case <-c.stopped:
		case <-time.After(startTimeout):
			c.t.Errorf("the control plane did not stop within %s", startTimeout)
		}
	})
}

// As returns the configuration of a user with a certificate.
func (c *ControlPlane) As(user string, groups ...string) *rest.Config {
	c.t.Helper()
	return c.With(Must[pki.Pair](c.t)(c.Clients.Client("user-"+strconv.FormatInt(c.users.Add(1), 10), user, groups...)))
}

// With returns the configuration of a client with a certificate.
func (c *ControlPlane) With(pair pki.Pair) *rest.Config {
	return &rest.Config{
		Host: c.URL, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.Serving.CertFile(), CertFile: pair.CertFile, KeyFile: pair.KeyFile},
	}
}

// Admin returns a configuration with all rights.
func (c *ControlPlane) Admin() *rest.Config { return c.As("admin", "system:masters") }

// Listen returns a listener on a free loopback port.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	return Must[net.Listener](t)(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))
}

// Must returns the value of a call that may not fail.
func Must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// processMetrics registers metrics for the process.
type processMetrics struct{}

func (processMetrics) Register(m metrics.Registerable) error { return legacyregistry.Register(m) }

func (processMetrics) CustomRegister(c metrics.StableCollector) error {
	return legacyregistry.CustomRegister(c)
}
