// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/internal/options"
)

const patience = 30 * time.Second

// host is a control plane on an etcd of its own.
type host struct {
	t      *testing.T
	dir    string
	adjust func(*controlplane.Options)
	// store may change where the etcd is, and backend is the one that runs.
	store    func(*etcd.Options)
	backend  *etcd.Backend
	url      string
	ca       map[string]*pki.Authority
	proxy    pki.Pair
	startup  time.Duration
	stopOnce *sync.Once
	stopped  chan struct{}
	cancel   context.CancelFunc
}

func startHost(t *testing.T, adjust func(*controlplane.Options)) *host {
	t.Helper()
	h := newHost(t, adjust)
	h.start()
	return h
}

// newHost makes the certificates of a host that is not running yet.
func newHost(t *testing.T, adjust func(*controlplane.Options)) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir(), adjust: adjust, ca: map[string]*pki.Authority{}}
	directory, err := pki.Open(filepath.Join(h.dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"serving", "client", "front-proxy"} {
		if h.ca[name], err = directory.Authority(name, name); err != nil {
			t.Fatal(err)
		}
	}
	if h.proxy, err = h.ca["front-proxy"].Client("proxy", "annex-aggregator"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.stop)
	return h
}

// start returns when the host is ready.
func (h *host) start() {
	h.t.Helper()
	began := time.Now()
	server := h.launch()
	select {
	case <-server.Ready():
		h.startup = time.Since(began)
	case <-h.stopped:
		h.t.Fatal("the control plane ended before it was ready")
	case <-time.After(patience):
		h.t.Fatal("the control plane did not become ready")
	}
}

func (h *host) launch() *controlplane.Server {
	h.t.Helper()
	store, dir := etcd.NewOptions(), filepath.Join(h.dir, "data")
	if h.store != nil {
		h.store(store)
	}
	if len(store.Servers) > 0 {
		dir = ""
	}
	completedStore, err := store.Complete(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(h.dir, "data"), 0o700); err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	backend, err := completedStore.Start(ctx)
	if err != nil {
		cancel()
		h.t.Fatal(err)
	}
	h.backend = backend
	server := controlplane.New(h.options(), backend)
	h.stopOnce, h.stopped, h.cancel = &sync.Once{}, make(chan struct{}), cancel
	stopped := h.stopped
	go func() {
		defer close(stopped)
		if err := server.Run(ctx); err != nil {
			h.t.Errorf("running the control plane: %v", err)
		}
		backend.Stop()
	}()
	return server
}

// options are for a server on a port of its own, at which the host is reached from now on.
func (h *host) options() controlplane.CompletedOptions {
	h.t.Helper()
	o := h.rawOptions()
	completed, err := o.Complete()
	if err != nil {
		h.t.Fatal(err)
	}
	h.url = "https://" + o.Serving.Listener.Addr().String()
	return completed
}

// rawOptions are those that options completes.
func (h *host) rawOptions() *controlplane.Options {
	h.t.Helper()
	serving, err := h.ca["serving"].Serving("host", "localhost", "127.0.0.1")
	if err != nil {
		h.t.Fatal(err)
	}
	o := controlplane.NewOptions()
	o.Serving = options.NewServing("", net.IPv4(127, 0, 0, 1), 0)
	o.Serving.Listener = listen(h.t)
	o.Serving.CertFile, o.Serving.KeyFile = serving.CertFile, serving.KeyFile
	o.ClientCAFile = h.ca["client"].CertFile()
	o.RequestHeader.ClientCAFile = h.ca["front-proxy"].CertFile()
	o.RequestHeader.AllowedNames = []string{"annex-aggregator"}
	o.ProxyClientCertFile, o.ProxyClientKeyFile = h.proxy.CertFile, h.proxy.KeyFile
	o.Authorizers = []authorizer.Authorizer{refusalsFail(h.t)}
	o.Metrics = processMetrics{}
	if h.adjust != nil {
		h.adjust(o)
	}
	return o
}

// processMetrics registers metrics for the process.
type processMetrics struct{}

func (processMetrics) Register(m metrics.Registerable) error { return legacyregistry.Register(m) }

func (processMetrics) CustomRegister(c metrics.StableCollector) error {
	return legacyregistry.CustomRegister(c)
}

func (h *host) stop() {
	if h.stopOnce == nil {
		return
	}
	h.stopOnce.Do(func() {
		h.cancel()
		select {
		case <-h.stopped:
		case <-time.After(patience):
			h.t.Error("the control plane did not stop")
		}
	})
}

// as returns a configuration for a user of the client authority.
func (h *host) as(user string, groups ...string) *rest.Config {
	h.t.Helper()
	pair, err := h.ca["client"].Client("user-"+filepath.Base(h.t.TempDir()), user, groups...)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.with(pair)
}

func (h *host) with(pair pki.Pair) *rest.Config {
	return &rest.Config{
		Host: h.url, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: h.ca["serving"].CertFile(), CertFile: pair.CertFile, KeyFile: pair.KeyFile},
	}
}

func (h *host) admin() *rest.Config { return h.as("admin", "system:masters") }

func core(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	return must[kubernetes.Interface](t)(kubernetes.NewForConfig(config))
}

func definitions(t *testing.T, config *rest.Config) apiextensionsclient.Interface {
	t.Helper()
	return must[apiextensionsclient.Interface](t)(apiextensionsclient.NewForConfig(config))
}

func services(t *testing.T, config *rest.Config) aggregatorclient.Interface {
	t.Helper()
	return must[aggregatorclient.Interface](t)(aggregatorclient.NewForConfig(config))
}

func anything(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	return must[dynamic.Interface](t)(dynamic.NewForConfig(config))
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// eventually waits until check returns nil, and else fails with what it said last.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still: %v", err)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
