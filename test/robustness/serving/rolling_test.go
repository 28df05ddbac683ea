// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/replicas"
	"github.com/kube-annex/annex/test/robustness/report"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// TestReplicasAreReplacedOneByOne restarts three replicas behind the aggregator while clients work. No request fails, and no watcher
// misses anything. How the aggregator comes to its replica differs: a resolver chooses for each request among those that are ready, as a
// kube-apiserver does with --enable-aggregator-routing, or a balancer does so for each connection, as with the address of a Service.
func TestReplicasAreReplacedOneByOne(t *testing.T) {
	t.Parallel()
	for name, balanced := range map[string]bool{"a resolver chooses for each request": false, "a balancer chooses for each connection": true} {
		if !balanced && !report.Full() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, random := seeded(t)
			delay := quickOr(600*time.Millisecond, 5*time.Second)
			h := newHost(t)
			var servers []*extension
			var addresses []string
			for i := range 3 {
				e := h.replica("replica-"+strconv.Itoa(i), "--etcd-servers="+h.socket(), "--shutdown-delay-duration="+delay.String())
				servers, addresses = append(servers, e), append(addresses, e.address)
			}
			p := replicas.New(addresses...)
			tlsConfig, err := rest.TLSConfigFor(servers[0].to(&rest.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			var following sync.WaitGroup
			following.Go(func() { p.Run(ctx, tlsConfig) })
			t.Cleanup(func() { stop(); following.Wait() })
			behind := []string{"-replicas=" + strings.Join(addresses, ",")}
			if balanced {
				behind = []string{"-behind=" + p.Balance(t).Address()}
			}
			h.start(behind...)
			for _, e := range servers {
				e.start()
			}
			for _, e := range servers {
				e.waitReady()
				poll.Eventually(t, patience, e.name+" is sent requests", func(context.Context) error { return p.Wants(e.address) })
			}
			h.register()
			l := traffic.Start(t, traffic.Options{
				Seed: seed, Objects: traffic.ClusterClaims(), Configs: []*rest.Config{h.admin}, Pause: quickOr(10*time.Millisecond, 5*time.Millisecond),
				Goroutines: map[string]func(context.Context) (int, error){"host": traffic.Goroutines(h.admin)},
			})
			l.WaitFor(t, 50)
			for round := range quickOr(1, 5) {
				for _, e := range servers {
					l.WaitFor(t, 10+random.IntN(20))
					if err := e.process.Stop(); err != nil {
						t.Error(err)
					}
					l.WaitFor(t, 20)
					e.start()
					e.waitReady()
					poll.Eventually(t, patience, e.name+" is sent requests", func(context.Context) error { return p.Wants(e.address) })
				}
				t.Logf("round %d: all replicas are new", round)
			}
			took := l.Recovered(t, patience)
			if failed := l.Failed(); len(failed) > 0 {
				t.Errorf("%d requests failed, among them:", len(failed))
				for _, one := range failed[:min(len(failed), 10)] {
					t.Error(one)
				}
			}
			l.Verdict(t)
			t.Logf("all watchers had seen what was written %s later", took.Round(time.Millisecond))
		})
	}
}
