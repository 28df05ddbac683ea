// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

const (
	root = "../../.."
	// startTimeout is generous: everything starts at once.
	startTimeout = time.Minute
)

// world is an etcd cluster and replicas that keep claims in it. They have a host that knows their clients.
type world struct {
	etcd     *clientv3.Client
	members  *cluster.Etcd
	replicas []*replica
}

// process is a child that can be killed and started again.
type process struct {
	name, log, binary string
	args              []string
	current           *cluster.Process
}

// replica is an extension apiserver.
type replica struct {
	*process
	client *rest.RESTClient
	ready  atomic.Bool
}

// startWorld starts all processes; they end with the test.
func startWorld(t testing.TB, members, replicas int, unguarded bool) *world {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	dir := t.TempDir()
	w.startMembers(t, filepath.Join(dir, "etcd"), members)
	host := framework.Start(t)
	authorities, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := authorities.Authority("ca", "replicas")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving("replica", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range replicas {
		port, err := cluster.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		name := "replica-" + strconv.Itoa(i)
		r := &replica{process: &process{name: name, log: filepath.Join(dir, name+".log"), binary: binary, args: []string{
			roleReplica, "-kubeconfig=" + host.Kubeconfig, "-port=" + strconv.Itoa(port), "-cert=" + serving.CertFile, "-key=" + serving.KeyFile,
			"-servers=" + w.members.Servers(), "-unguarded=" + strconv.FormatBool(unguarded),
		}}}
		// The replicas let those in whom their host lets in, and do not ask it what its administrators may do.
		config := rest.CopyConfig(host.Config)
		config.Host = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		config.CAFile, config.CAData, config.QPS, config.WarningHandler = authority.CertFile(), nil, -1, rest.NoWarnings{}
		config.APIPath, config.GroupVersion = "/apis", &v1alpha1.SchemeGroupVersion
		config.NegotiatedSerializer = clientscheme.Codecs.WithoutConversion()
		if r.client, err = rest.RESTClientFor(config); err != nil {
			t.Fatal(err)
		}
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.current.Kill() })
		w.replicas = append(w.replicas, r)
	}
	for _, r := range w.replicas {
		if err := r.waitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) startMembers(t testing.TB, dir string, members int) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	bin := filepath.Dir(framework.Build(t, "etcd", root, "go.etcd.io/etcd/server/v3"))
	if w.members, err = cluster.StartEtcd(t.Context(), bin, dir, members); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.members.Stop)
	if w.etcd, err = clientv3.New(clientv3.Config{Endpoints: strings.Split(w.members.Servers(), ","), Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.etcd.Close() })
}

func (p *process) start() (err error) {
	p.current, err = cluster.StartProcess(p.name, p.log, p.binary, p.args...)
	return err
}

// tail is how an error shows what the process said last.
func (p *process) tail() string {
	return fmt.Sprintf("the end of the log of %s:\n%s", p.name, p.current.Tail(30))
}

// waitReady waits until the replica serves, after which clients may use it.
func (r *replica) waitReady(ctx context.Context) error {
	err := poll.Until(ctx, startTimeout, func(ctx context.Context) error {
		return r.client.Get().AbsPath("/readyz").Timeout(2 * time.Second).Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("%s is not ready: %w; %s", r.name, err, r.tail())
	}
	r.ready.Store(true)
	return nil
}

// restart starts a replica that was killed.
func (r *replica) restart(ctx context.Context) error {
	if err := r.start(); err != nil {
		return err
	}
	return r.waitReady(ctx)
}

// killLeader kills the member that leads, and starts it again. It returns when the member serves.
func (w *world) killLeader(ctx context.Context) error {
	leader, err := w.members.Leader(ctx)
	if err != nil {
		return err
	}
	return w.members.Restart(ctx, leader)
}

// waitMembers waits until all members agree on a leader.
func (w *world) waitMembers(ctx context.Context) error {
	return poll.Until(ctx, startTimeout, func(ctx context.Context) error {
		var leader uint64
		for _, endpoint := range w.etcd.Endpoints() {
			status, err := w.etcd.Status(ctx, endpoint)
			if err != nil {
				return err
			}
			if status.Leader == 0 || leader != 0 && status.Leader != leader {
				return errors.New("etcd's members do not agree on a leader")
			}
			leader = status.Leader
		}
		return nil
	})
}
