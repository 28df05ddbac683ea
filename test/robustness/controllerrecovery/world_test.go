// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllerrecovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	root     = "../../.."
	loopback = "127.0.0.1"
	// members is how many etcd has where it is not in the replica.
	members = 3
)

// leadershipFlags shorten fail-over, and the time until unused quota charges are taken back. Controllers have 1.5 s to stop after the renew
// deadline, also on a busy machine: a process whose controllers do not stop in time ends itself.
func leadershipFlags() []string {
	return []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=2500ms", "--leader-elect-retry-period=200ms", "--resource-quota-sync-period=5s"}
}

// world is a control plane of one or more processes, and its etcd.
type world struct {
	etcd     *clientv3.Client
	replicas []*replica
	// members are those of etcd, where it is not in the replica.
	members *cluster.Etcd
	// extension is the server of the aggregated kind, where replicas resolve its Service.
	extension *extension
	// conversion is that of definitions whose objects are converted slowly.
	conversion map[string]any
	// authorities is what the ConfigMap kube-root-ca.crt holds.
	authorities string
	// urge has a value when controllers have just been given work that is worth interrupting. It may be nil.
	urge chan struct{}

	// calm is held for reading while the leader must live.
	calm sync.RWMutex

	mu sync.Mutex
	// notes are what people want to know when something has gone wrong.
	notes []string
}

// note puts down what was done, for people.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, time.Now().Format(clock)+": "+fmt.Sprintf(format, args...))
}

// noted returns the latest notes.
func (w *world) noted() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.notes[max(0, len(w.notes)-60):], "\n")
}

// replica is a process that serves the API. It is started again on the same port.
type replica struct {
	name, log, binary, kubeconfig string
	args                          []string
	// ready is nil while clients should not use it.
	ready atomic.Pointer[client]

	mu      sync.Mutex
	current *cluster.Process
	// meant tells that the process ends because it was killed here.
	meant bool
	died  []string
}

// client reaches a replica with all rights.
type client struct {
	config  *rest.Config
	dynamic dynamic.Interface
	raw     rest.Interface
}

// startReplicas starts three members of etcd and three control planes on them.
func startReplicas(t testing.TB) *world {
	t.Helper()
	dir := shortDir(t)
	store, err := cluster.StartEtcd(t.Context(), components, dir, members)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	w := &world{etcd: dial(t, strings.Split(store.Servers(), ",")...), members: store}
	shared, err := cluster.NewControlPlaneIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	w.authorities = string(shared.Serving.CertPEM())
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w.startConversion(t, dir)
	w.startExtension(t, dir, binary, store.Servers(), shared)
	for i := range 3 {
		port, err := cluster.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		name := "replica-" + strconv.Itoa(i)
		r := &replica{name: name, log: filepath.Join(dir, name+".log"), binary: binary, kubeconfig: filepath.Join(dir, name+".kubeconfig")}
		r.args = append([]string{replicaProgram, "--etcd-servers=" + store.Servers(), "--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port)}, shared.Flags...)
		r.args = append(r.args, leadershipFlags()...)
		if err := pki.WriteKubeconfig(r.kubeconfig, "https://"+net.JoinHostPort(loopback, strconv.Itoa(port)), shared.Serving.CertFile(), shared.Admin); err != nil {
			t.Fatal(err)
		}
		w.replicas = append(w.replicas, r)
	}
	w.start(t)
	return w
}

// startUp starts `annex up`, with its etcd inside.
func startUp(t testing.TB) *world {
	t.Helper()
	dir := shortDir(t)
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	r := &replica{name: "annex-up", log: filepath.Join(dir, "up.log"), binary: framework.Annex(t, root), kubeconfig: filepath.Join(data, "kubeconfig")}
	r.args = append([]string{"up", "--data-dir=" + data, "--secure-port=" + strconv.Itoa(port), "--extension-port=0", "--cluster-id-source=None"}, leadershipFlags()...)
	w := &world{replicas: []*replica{r}}
	w.startConversion(t, dir)
	w.start(t)
	w.etcd = dial(t, "unix://"+filepath.Join(data, "etcd", "client.sock"))
	authorities, err := os.ReadFile(r.ready.Load().config.CAFile)
	if err != nil {
		authorities = r.ready.Load().config.CAData
	}
	w.authorities = string(authorities)
	return w
}

// start returns when all replicas are ready. They end with the test.
func (w *world) start(t testing.TB) {
	t.Helper()
	for _, r := range w.replicas {
		t.Cleanup(r.kill)
		if err := r.launch(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range w.replicas {
		if err := r.waitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// shortDir is a directory with a path so short that a socket in it has an address.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "annex-upkeep-") //nolint:usetesting // paths of t.TempDir are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
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

// launch starts the process, and looks after what happens to it.
func (r *replica) launch() error {
	process, err := cluster.StartProcess(r.name, r.log, r.binary, r.args...)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.current, r.meant = process, false
	r.mu.Unlock()
	go func() {
		<-process.Done()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.current == process && !r.meant {
			r.ready.Store(nil)
			r.died = append(r.died, fmt.Sprintf("%s ended by itself; the end of its log:\n%s", r.name, process.Tail(20)))
		}
	}()
	return nil
}

// kill ends the process with SIGKILL and waits for it.
func (r *replica) kill() {
	r.ready.Store(nil)
	r.mu.Lock()
	process := r.current
	r.meant = true
	r.mu.Unlock()
	if process != nil {
		process.Kill()
	}
}

// deaths are the times at which nobody has killed the process, and it ended.
func (r *replica) deaths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.died...)
}

// waitReady waits until the replica serves, after which clients may use it.
func (r *replica) waitReady(ctx context.Context) error {
	var ready *client
	err := poll.Until(ctx, patience, func(ctx context.Context) (err error) {
		if ready == nil {
			if ready, err = r.connect(); err != nil {
				return err
			}
		}
		return ready.raw.Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w; the end of its log:\n%s", r.name, err, r.current.Tail(30))
	}
	r.ready.Store(ready)
	return nil
}

func (r *replica) connect() (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	plain := rest.CopyConfig(config)
	plain.NegotiatedSerializer = rawCodecs()
	raw, err := rest.UnversionedRESTClientFor(plain)
	if err != nil {
		return nil, err
	}
	return &client{config: config, dynamic: objects, raw: raw}, nil
}

// leads tells whether the replica says that it has the controllers.
func (r *replica) leads(ctx context.Context) (bool, error) {
	ready := r.ready.Load()
	if ready == nil {
		return false, fmt.Errorf("%s is not ready", r.name)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	text, err := ready.raw.Get().AbsPath("/healthz/leadership").DoRaw(ctx)
	if err != nil {
		return false, fmt.Errorf("ask %s whether it leads: %w", r.name, err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "controlplane: leading") {
			return true, nil
		}
	}
	return false, nil
}

// waitLeader returns when a replica leads, or time is up.
func (w *world) waitLeader(ctx context.Context, limit time.Duration) {
	_ = poll.Until(ctx, limit, func(ctx context.Context) error {
		if w.leader(ctx) == nil {
			return errors.New("nobody leads")
		}
		return nil
	})
}

// leader returns the replica that leads, if one does.
func (w *world) leader(ctx context.Context) *replica {
	for _, r := range w.replicas {
		if leads, err := r.leads(ctx); err == nil && leads {
			return r
		}
	}
	return nil
}
