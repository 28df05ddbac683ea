// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/replicas"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

var rollings = flag.Int("rollings", 1, "how often replicas behind kube-apiserver are replaced one by one")

// unrepeatable is what kube-apiserver says of a write that had reached a replica just when that one began to close its connection. HTTP/2 says
// that it was not done, so that it could be sent again; but kube-apiserver does not keep bodies, and cannot.
const unrepeatable = "GOAWAY"

// TestReplicasAreReplacedOneByOne restarts three replicas behind the aggregator of a kube-apiserver while clients work. A balancer between
// them chooses a replica for each connection, as the address of a Service does. No request fails but writes that kube-apiserver cannot
// repeat, which were not done; and no watcher misses anything.
func TestReplicasAreReplacedOneByOne(t *testing.T) {
	unregisterAtEnd(t)
	etcd, err := cluster.StartEtcd(t.Context(), host.Bin(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	kubeconfig, err := host.Identity(user)
	if err != nil {
		t.Fatal(err)
	}
	certificate, authority := givenCertificates(t)
	all := make([]*annex, 3)
	addresses := make([]string, len(all))
	for i := range all {
		port, err := cluster.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		addresses[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		all[i] = &annex{logFile: filepath.Join(t.TempDir(), "annex.log"), args: append([]string{
			"apiserver", "--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
			"--etcd-servers=" + etcd.Servers(), "--shutdown-delay-duration=1s",
		}, certificate...)}
		if all[i].client, err = versioned.NewForConfig(host.Config); err != nil {
			t.Fatal(err)
		}
	}
	pool := replicas.New(addresses...)
	followReplicas(t, pool, strings.TrimPrefix(authority[0], "--ca-file="))
	register(t, pool.Balance(t).Port(), authority...)
	for i, a := range all {
		a.start(t)
		poll.Eventually(t, patience, "a replica is ready", func(context.Context) error { return pool.Wants(addresses[i]) })
	}
	all[0].waitAvailable(t)

	l := traffic.Start(t, traffic.Options{Seed: uint64(time.Now().UnixNano()), Objects: traffic.ClusterClaims(), Configs: []*rest.Config{host.Config}, Pause: 10 * time.Millisecond})
	l.WaitFor(t, 50)
	for range *rollings {
		for i, a := range all {
			a.stop(t)
			l.WaitFor(t, 20)
			a.start(t)
			poll.Eventually(t, patience, "a replica is ready again", func(context.Context) error { return pool.Wants(addresses[i]) })
			l.WaitFor(t, 20)
		}
	}
	l.Recovered(t, patience)
	for _, failed := range l.Failed() {
		if !strings.Contains(failed, unrepeatable) {
			t.Errorf("failed: %s", failed)
		}
	}
	l.Verdict(t)
	t.Logf("of all requests %d failed, because kube-apiserver could not repeat them", len(l.Failed()))
}

// followReplicas has the pool ask its replicas until the test ends.
func followReplicas(t *testing.T, pool *replicas.Pool, authority string) {
	t.Helper()
	pem, err := os.ReadFile(authority)
	if err != nil {
		t.Fatal(err)
	}
	tlsConfig, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: pem, ServerName: "annex-apiserver.annex-system.svc"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { pool.Run(ctx, tlsConfig) })
	t.Cleanup(func() { stop(); following.Wait() })
}
