// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// startServer starts an etcd as others run it, with etcd's own limits, at a URL ("unix:///…", "https://127.0.0.1:0").
func startServer(t *testing.T, address string, change ...func(*embed.Config)) (endpoint string) {
	t.Helper()
	listen, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	config := embed.NewConfig()
	config.Name = "external"
	config.Dir = filepath.Join(t.TempDir(), "etcd")
	config.ListenPeerUrls = nil
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ListenClientUrls = []url.URL{*listen}
	config.AdvertiseClientUrls = []url.URL{*listen}
	config.TickMs, config.ElectionMs = 25, 250
	config.EnableGRPCGateway = false
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	for _, c := range change {
		c(config)
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	if listen.Scheme == "unix" {
		return address
	}
	return listen.Scheme + "://" + server.Clients[0].Addr().String()
}

func external(servers ...string) func(*Options) {
	return func(o *Options) { o.Servers = servers }
}

func TestExternalEtcdIsAwaited(t *testing.T) {
	t.Parallel()
	endpoint := "unix://" + filepath.Join(shortTempDir(t), "s")
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	type started struct {
		backend *Backend
		err     error
	}
	results := make(chan started, 1)
	completed := complete(t, "", external(endpoint))
	go func() {
		backend, err := completed.Start(ctx)
		results <- started{backend, err}
	}()
	log := func() string { return logger.GetSink().(ktesting.Underlier).GetBuffer().String() }
	eventually(t, func() string {
		if strings.Contains(log(), "waiting for etcd") {
			return ""
		}
		return "the log has no word on waiting: " + log()
	})
	for _, want := range []string{endpoint, "no such file or directory"} {
		if !strings.Contains(log(), want) {
			t.Errorf("the log does not say %q:\n%s", want, log())
		}
	}
	startServer(t, endpoint)
	select {
	case got := <-results:
		if got.err != nil {
			t.Fatal(got.err)
		}
		t.Cleanup(got.backend.Stop)
		if err := put(t.Context(), got.backend, "/key", "value"); err != nil {
			t.Error(err)
		}
		if err := got.backend.HealthCheck().Check(nil); err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("not ready although etcd came")
	}
	if !strings.Contains(log(), "etcd answers") {
		t.Errorf("the log does not say that the waiting has ended:\n%s", log())
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	closed := listen(t, "tcp", "127.0.0.1:0")
	silent := listen(t, "tcp", "127.0.0.1:0")
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := silent.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	type tc struct {
		address net.Addr
		want    string
	}
	for name, tc := range map[string]tc{
		"refused": {address: closed.Addr(), want: "connection refused"},
		"silent":  {address: silent.Addr(), want: "no answer within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
			defer cancel()
			_, err := complete(t, "", external("http://"+tc.address.String())).Start(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
			wantError(t, err, "waiting for etcd at http://"+tc.address.String(), tc.want)
		})
	}
}

func TestExternalEtcdOverTLS(t *testing.T) {
	t.Parallel()
	f := makeFiles(t)
	other := makeFiles(t)
	endpoint := startServer(t, "https://127.0.0.1:0", func(c *embed.Config) {
		c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = f.serverCert, f.serverKey
		c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = f.ca, true
	})
	b, err := complete(t, "", external(endpoint), func(o *Options) { o.CAFile, o.CertFile, o.KeyFile = f.ca, f.cert, f.key }).Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	if err := put(t.Context(), b, "/key", "value"); err != nil {
		t.Error(err)
	}
	if err := b.SpaceCheck().Check(nil); err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = complete(t, "", external(endpoint), func(o *Options) { o.CAFile, o.CertFile, o.KeyFile = other.ca, f.cert, f.key }).Start(ctx)
	wantError(t, err, "certificate signed by unknown authority")
}

func TestTooLargeIsAClear413(t *testing.T) {
	t.Parallel()
	type tc struct {
		start func(t *testing.T) *Backend
		size  int
		want  bool // refused
	}
	embedded := func(t *testing.T) *Backend { return startEmbedded(t, t.TempDir()) }
	outside := func(t *testing.T) *Backend {
		return startEmbedded(t, "", external(startServer(t, "unix://"+filepath.Join(shortTempDir(t), "s"))))
	}
	for name, tc := range map[string]tc{
		"embedded takes what a body of 3 MiB may become": {start: embedded, size: 6 << 20},
		"embedded takes its maximum":                     {start: embedded, size: embeddedMaxBytes},
		"embedded refuses more":                          {start: embedded, size: embeddedMaxBytes + 1, want: true},
		"external takes 1 MiB":                           {start: outside, size: 1 << 20},
		"external refuses by etcd's limit":               {start: outside, size: 1700 << 10, want: true},
		"external refuses by grpc's limit":               {start: outside, size: 3 << 20, want: true},
		"external is not sent too much":                  {start: outside, size: 9 << 20, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := tc.start(t)
			_, err := b.Client.Kubernetes.OptimisticPut(t.Context(), "/key", make([]byte, tc.size), 0, kubernetes.PutOptions{})
			if !tc.want {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			status := apierrors.APIStatus(nil)
			if !errors.As(err, &status) || status.Status().Code != http.StatusRequestEntityTooLarge {
				t.Fatalf("got %v, want a status with code 413", err)
			}
			wantError(t, err, "the object takes", "make it smaller")
		})
	}
}

// lateTimer is a context whose timer has not fired although its deadline has passed.
type lateTimer struct{ context.Context }

func (lateTimer) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestWhatFailsAtTheDeadlineIsNotTheReason(t *testing.T) {
	t.Parallel()
	if err := ended(lateTimer{t.Context()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the deadline has passed: got %v, want %v", err, context.DeadlineExceeded)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	if err := ended(ctx); err != nil {
		t.Errorf("the deadline is to come: got %v", err)
	}
	cancel()
	if err := ended(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, want %v", err, context.Canceled)
	}
}
