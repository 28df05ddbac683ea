// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/robustness/faults"
	"github.com/kube-annex/annex/test/robustness/report"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// quickPing is how soon clients of the quick form notice a connection that has gone silent. client-go's own take 45 s.
const quickPing = time.Second

// pinging has clients ask sooner whether a silent connection is still one.
func pinging(t *testing.T, config *rest.Config) *rest.Config {
	t.Helper()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	out := rest.CopyConfig(config)
	out.TLSClientConfig = rest.TLSClientConfig{}
	out.Transport = &http.Transport{
		TLSClientConfig: withHTTP2(tlsConfig), ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: quickPing, PingTimeout: quickPing},
	}
	return out
}

func withHTTP2(config *tls.Config) *tls.Config {
	config.NextProtos = []string{"h2", "http/1.1"}
	return config
}

// TestConnectionsAreCut breaks all connections of clients and watchers again and again.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	for name, objects := range sides() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, random := seeded(t)
			u := startUp(t, "")
			between := faults.NewProxy(t, "tcp", address(u.config))
			l := traffic.Start(t, traffic.Options{
				Seed: seed, Objects: objects, Configs: []*rest.Config{separate(u.config, between.Address())},
				Goroutines: map[string]func(context.Context) (int, error){"annex": traffic.Goroutines(u.config)},
			})
			l.WaitFor(t, 20)
			cuts, slowest := quickOr(5, 100), time.Duration(0)
			for range cuts {
				l.WaitFor(t, random.IntN(20))
				if between.Cut() == 0 {
					t.Error("there was nothing to cut")
				}
				slowest = max(slowest, l.Recovered(t, patience))
			}
			l.Verdict(t)
			t.Logf("%d cuts; all clients had written and read and all watchers had seen it %s after one at the latest", cuts, slowest.Round(time.Millisecond))
		})
	}
}

// TestConnectionsGoSilent has connections swallow all that is sent, in both directions and without an end. Clients notice by HTTP/2's
// pings and go on over new ones; when the network gives the old ones up, the server has nothing left of them.
func TestConnectionsGoSilent(t *testing.T) {
	t.Parallel()
	for name, objects := range sides() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed, _ := seeded(t)
			u := startUp(t, "")
			between := faults.NewProxy(t, "tcp", address(u.config))
			config := separate(u.config, between.Address())
			limit := 45 * time.Second
			if !report.Full() {
				config, limit = pinging(t, config), 2*quickPing
			}
			l := traffic.Start(t, traffic.Options{
				Seed: seed, Objects: objects, Configs: []*rest.Config{config}, RequestTimeout: limit + patience,
				Goroutines: map[string]func(context.Context) (int, error){"annex": traffic.Goroutines(u.config)},
			})
			l.WaitFor(t, 20)
			for range quickOr(1, 3) {
				silent := between.Silence()
				took := l.Recovered(t, limit+patience)
				t.Logf("%d connections silent; all clients had written and read and all watchers had seen it %s later", silent, took.Round(time.Millisecond))
			}
			between.Cut()
			l.Verdict(t)
		})
	}
}

// sides are kinds behind the aggregator and, in full, of the control plane.
func sides() map[string]traffic.Objects {
	out := map[string]traffic.Objects{"aggregated": traffic.ClusterClaims()}
	if report.Full() {
		out["control plane"] = traffic.ConfigMaps("default")
	}
	return out
}
