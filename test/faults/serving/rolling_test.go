// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/faults/load"
)

// pool is replicas of one server, of which those are sent requests that say they are ready, as with Endpoints of a Service.
type pool struct {
	mu    sync.Mutex
	ready map[string]bool
	order []string
	next  int
}

// probeInterval is how often replicas are asked. The shutdown delay is a multiple of it.
const probeInterval = 50 * time.Millisecond

// newPool follows replicas, which nobody has asked yet.
func newPool(addresses ...string) *pool { return &pool{ready: map[string]bool{}, order: addresses} }

// run asks the replicas again and again until the context ends.
func (p *pool) run(ctx context.Context, tlsConfig *tls.Config) {
	// Probes of a kubelet have a connection each, too.
	via := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
	var running sync.WaitGroup
	defer running.Wait()
	for _, address := range p.order {
		running.Go(func() {
			ticker := time.NewTicker(probeInterval)
			defer ticker.Stop()
			for ctx.Err() == nil {
				ready := ask(ctx, via, "https://"+address+"/readyz") == nil
				p.mu.Lock()
				p.ready[address] = ready
				p.mu.Unlock()
				select {
				case <-ticker.C:
				case <-ctx.Done():
				}
			}
		})
	}
}

func ask(ctx context.Context, via *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := via.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

func (p *pool) isReady(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready[address]
}

// choose returns the ready ones in turn.
func (p *pool) choose() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.order {
		p.next = (p.next + 1) % len(p.order)
		if address := p.order[p.next]; p.ready[address] {
			return address, nil
		}
	}
	return "", errors.New("no replica is ready")
}

// balance listens for connections and passes each on to a ready replica, and leaves it there.
func (p *pool) balance(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var working sync.WaitGroup
	var mu sync.Mutex
	links := map[*link]bool{}
	working.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			address, err := p.choose()
			if err != nil {
				_ = client.Close()
				continue
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			l := &link{client: client, server: server}
			mu.Lock()
			links[l] = true
			mu.Unlock()
			working.Go(func() { l.pass(client, server) })
			working.Go(func() { l.pass(server, client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for l := range links {
			l.close()
		}
		mu.Unlock()
		working.Wait()
	})
	return listener.Addr().String()
}

// TestReplicasAreReplacedOneByOne restarts three replicas behind the aggregator while clients work. No request fails, and no watcher
// misses anything. How the aggregator comes to its replica differs: a resolver chooses for each request among those that are ready, as a
// kube-apiserver does with --enable-aggregator-routing, or a balancer does so for each connection, as with the address of a Service.
func TestReplicasAreReplacedOneByOne(t *testing.T) {
	t.Parallel()
	for name, balanced := range map[string]bool{"a resolver chooses for each request": false, "a balancer chooses for each connection": true} {
		if !balanced && !flags.Full {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, random := seeded(t)
			delay := quickOr(600*time.Millisecond, 5*time.Second)
			h := newHost(t)
			var replicas []*extension
			var addresses []string
			for i := range 3 {
				e := h.replica("replica-"+strconv.Itoa(i), "--etcd-servers="+h.socket(), "--shutdown-delay-duration="+delay.String())
				replicas, addresses = append(replicas, e), append(addresses, e.address)
			}
			p := newPool(addresses...)
			tlsConfig, err := rest.TLSConfigFor(replicas[0].to(&rest.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(context.Background())
			var following sync.WaitGroup
			following.Go(func() { p.run(ctx, tlsConfig) })
			t.Cleanup(func() { stop(); following.Wait() })
			behind := []string{"-replicas=" + strings.Join(addresses, ",")}
			if balanced {
				behind = []string{"-behind=" + p.balance(t)}
			}
			h.start(behind...)
			for _, e := range replicas {
				e.start()
			}
			for _, e := range replicas {
				e.waitReady()
				eventually(t, e.name+" is sent requests", func(context.Context) error { return p.wants(e, true) })
			}
			h.register()
			l := load.Start(t, load.Options{
				Seed: seed, Objects: load.ClusterClaims(), Configs: []*rest.Config{h.admin}, Pause: quickOr(10*time.Millisecond, 5*time.Millisecond),
				Goroutines: map[string]func(context.Context) (int, error){"host": load.Goroutines(h.admin)},
			})
			l.WaitFor(t, 50)
			for round := range quickOr(1, 5) {
				for _, e := range replicas {
					l.WaitFor(t, 10+random.IntN(20))
					if err := e.process.Stop(); err != nil {
						t.Error(err)
					}
					l.WaitFor(t, 20)
					e.start()
					e.waitReady()
					eventually(t, e.name+" is sent requests", func(context.Context) error { return p.wants(e, true) })
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

func (p *pool) wants(e *extension, ready bool) error {
	if got := p.isReady(e.address); got != ready {
		return fmt.Errorf("ready: %t, want %t", got, ready)
	}
	return nil
}
