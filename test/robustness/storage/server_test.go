// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

const (
	loopback = "127.0.0.1"
	// startTimeout is generous: everything starts at once.
	startTimeout = 90 * time.Second
	// recovery is how long clients may take to recover; requests wait for an answer for up to 10 s.
	recovery = time.Minute
)

// server is a process of annex that is started again on the same port and data.
type server struct {
	disk
	name, log, binary, kubeconfig string
	args                          []string
	current                       *cluster.Process
	// idle is about how many goroutines it has when all is started and nobody works. It says that it is ready before that.
	idle int
}

// newUp returns `annex up`, which is not started yet.
func newUp(t testing.TB, flags ...string) *server {
	t.Helper()
	dir := shortDir(t)
	data := filepath.Join(dir, "data")
	args := []string{"up", "--data-dir=" + data, "--secure-port=" + strconv.Itoa(freePort(t)), "--extension-port=0", "--cluster-id-source=None"}
	s := newServer(t, "annex-up", dir, filepath.Join(data, "kubeconfig"), append(args, flags...)...)
	s.idle = 1900
	return s
}

// newControlPlanes returns replicas of `annex controlplane`, which are not started yet. Flags say where their etcd is.
func newControlPlanes(t testing.TB, dir string, replicas int, flags ...string) (servers []*server) {
	t.Helper()
	identity, err := cluster.NewControlPlaneIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range replicas {
		name, port := "control-plane-"+strconv.Itoa(i), strconv.Itoa(freePort(t))
		kubeconfig := filepath.Join(dir, name+".kubeconfig")
		if err := pki.WriteKubeconfig(kubeconfig, "https://"+net.JoinHostPort(loopback, port), identity.Serving.CertFile(), identity.Admin); err != nil {
			t.Fatal(err)
		}
		args := append([]string{
			"controlplane", "--bind-address=" + loopback, "--secure-port=" + port,
			"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=2500ms", "--leader-elect-retry-period=200ms",
		}, flags...)
		servers = append(servers, newServer(t, name, dir, kubeconfig, append(args, identity.Flags...)...))
		servers[i].idle = 850
	}
	// One of them leads.
	servers[0].idle = 1400
	return servers
}

// newControlPlane returns one with an etcd inside.
func newControlPlane(t testing.TB, flags ...string) *server {
	t.Helper()
	dir := shortDir(t)
	return newControlPlanes(t, dir, 1, append([]string{"--data-dir=" + filepath.Join(dir, "data")}, flags...)...)[0]
}

func newServer(t testing.TB, name, dir, kubeconfig string, args ...string) *server {
	t.Helper()
	s := &server{name: name, log: filepath.Join(dir, name+".log"), binary: annex(t), kubeconfig: kubeconfig, args: args, disk: disk{filepath.Join(dir, name+".disk")}}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() && s.current != nil {
			t.Logf("the end of the log of %s:\n%s", s.name, s.current.Tail(30))
		}
	})
	return s
}

// launch starts the process and does not wait for it.
func (s *server) launch(t testing.TB) {
	t.Helper()
	var err error
	args := append([]string{troubleVariable + "=" + s.file, s.binary}, s.args...)
	if s.current, err = cluster.StartProcess(s.name, s.log, "env", args...); err != nil {
		t.Fatal(err)
	}
}

// start returns when the server is ready.
func (s *server) start(t testing.TB) {
	t.Helper()
	s.launch(t)
	s.waitReady(t)
}

func (s *server) waitReady(t testing.TB) {
	t.Helper()
	poll.Eventually(t, startTimeout, s.name+" is not ready", func(ctx context.Context) error {
		select {
		case <-s.current.Done():
			t.Fatalf("%s ended; the end of its log:\n%s", s.name, s.current.Tail(30))
		default:
		}
		config, err := s.load()
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		return client.RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error()
	})
}

// kill ends the process with SIGKILL.
func (s *server) kill() {
	if s.current != nil {
		s.current.Kill()
	}
}

// waitEnd returns what the server said last after it has ended by itself.
func (s *server) waitEnd(t testing.TB, within time.Duration) string {
	t.Helper()
	select {
	case <-s.current.Done():
	case <-time.After(within):
		t.Fatalf("%s did not end within %s; the end of its log:\n%s", s.name, within, s.current.Tail(30))
	}
	return s.current.Tail(5)
}

func (s *server) load() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	return config, nil
}

// config reaches the server with all rights.
func (s *server) config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func (s *server) client(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// dataDir is where a server with an etcd inside keeps everything.
func (s *server) dataDir() string { return filepath.Join(filepath.Dir(s.log), "data") }

// dial reaches the etcd inside.
func (s *server) dial(t testing.TB) *clientv3.Client {
	t.Helper()
	return dial(t, "unix://"+filepath.Join(s.dataDir(), "etcd", "client.sock"))
}

// work has clients work on servers, config maps unless the options say otherwise.
func (r row) work(t testing.TB, options traffic.Options, servers ...*server) *traffic.Load {
	t.Helper()
	options.Seed, options.Again = r.seed, r.again
	if options.Objects.Kind == "" {
		options.Objects = traffic.ConfigMaps("default")
	}
	idle := 0
	for _, s := range servers {
		options.Configs = append(options.Configs, s.config(t))
		idle += s.idle
	}
	// The one that leads has controllers, and it may be another one in the end.
	waitLeader(t, servers)
	options.Goroutines = map[string]func(context.Context) (int, error){"all servers together": func(ctx context.Context) (all int, err error) {
		for _, config := range options.Configs {
			number, err := traffic.Goroutines(config)(ctx)
			if err != nil {
				return 0, err
			}
			all += number
		}
		return max(all, idle), nil
	}}
	return traffic.Start(t, options)
}

func waitLeader(t testing.TB, servers []*server) {
	t.Helper()
	poll.Eventually(t, startTimeout, "nobody leads", func(ctx context.Context) error {
		for _, s := range servers {
			text, err := s.client(t).RESTClient().Get().AbsPath("/healthz/leadership").DoRaw(ctx)
			if err == nil && strings.Contains(string(text), "controlplane: leading") {
				return nil
			}
		}
		return errors.New("all follow")
	})
}

func dial(t testing.TB, endpoints ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// shortDir is a directory with a path so short that a socket in it has an address.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "annex-faults-") //nolint:usetesting // paths of t.TempDir are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func wantText(t testing.TB, what, text string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("%s: %s, want something of %q", what, fmt.Sprintf("%q", text), part)
		}
	}
}
