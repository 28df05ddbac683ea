// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// sluggish passes requests on to a host, and lets those that ask whether somebody may do something wait.
type sluggish struct {
	pass http.Handler
	// delay is for how long they wait, in nanoseconds, and waiting how many do.
	delay, waiting atomic.Int64
}

// ServeHTTP implements http.Handler.
func (s *sluggish) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if delay := time.Duration(s.delay.Load()); delay > 0 && strings.HasSuffix(r.URL.Path, "/subjectaccessreviews") {
		// Only when all of a request has been read does a server see that its client has gone.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	s.pass.ServeHTTP(w, r)
}

// newSluggish returns one that signs in as the user of a kubeconfig, and a kubeconfig that leads to it.
func newSluggish(t *testing.T, kubeconfig string) (s *sluggish, through string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	s = &sluggish{pass: &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(host) },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	server := httptest.NewServer(s)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	out := clientcmdapi.NewConfig()
	out.Clusters["host"] = &clientcmdapi.Cluster{Server: server.URL}
	out.Contexts["host"] = &clientcmdapi.Context{Cluster: "host"}
	out.CurrentContext = "host"
	through = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*out, through); err != nil {
		t.Fatal(err)
	}
	return s, through
}

// TestTheAuthorizerIsSlow has the host take its time to say what somebody may do. Callers of whom it has said so are served as ever; the
// others wait for the answer, but not for ever.
func TestTheAuthorizerIsSlow(t *testing.T) {
	t.Parallel()
	const (
		slow, stuck = 2 * time.Second, time.Hour
		// limit is what an extension apiserver waits at most.
		limit = 10 * time.Second
	)
	seed, _ := seeded(t)
	u := startUp(t, "")
	u.allow("users", everyKind)
	host, kubeconfig := newSluggish(t, filepath.Join(u.dir, "pki", "extension.kubeconfig"))
	e := newExtension(t, "extension", kubeconfig, "--data-dir="+t.TempDir(), "--authorization-webhook-cache-authorized-ttl=1h")
	e.start()
	t.Cleanup(e.process.Kill)
	e.waitReady()
	known := newCaller(t, "a known user", e.to(u.as("known", "users")))
	if a := known.ask(t.Context()); a.code != http.StatusOK {
		t.Fatal(a.err)
	}
	l := traffic.Start(t, traffic.Options{
		Seed: seed, Objects: traffic.ClusterClaims(), Configs: []*rest.Config{e.to(u.config)}, Clients: 4, Keys: 4,
		Goroutines: map[string]func(context.Context) (int, error){"extension": traffic.Goroutines(e.to(u.config))},
	})
	l.WaitFor(t, 5)

	all := []*caller{known}
	for name, tc := range map[string]struct {
		delay, least time.Duration
		code         int
	}{
		"slow":  {delay: slow, least: slow, code: http.StatusOK},
		"stuck": {delay: stuck, least: limit - time.Second, code: http.StatusServiceUnavailable},
	} {
		host.delay.Store(int64(tc.delay))
		began := time.Now()
		stop := asking(t, 50*time.Millisecond, known)
		var strangers []*caller
		for i := range quickOr(10, 40) {
			user := fmt.Sprintf("%s-%d", name, i)
			strangers = append(strangers, newCaller(t, user, e.to(u.as(user, "users"))))
		}
		all = append(all, strangers...)
		var waiting sync.WaitGroup
		for _, c := range strangers {
			waiting.Go(func() {
				a := c.ask(t.Context())
				if took := a.answered.Sub(a.asked); a.code != tc.code || took < tc.least {
					t.Errorf("%s got %d after %s, want %d after at least %s: %v", c.name, a.code, took, tc.code, tc.least, a.err)
				}
			})
		}
		waiting.Wait()
		stop()
		known.wants(t, began, time.Now(), http.StatusOK)
		for _, a := range known.between(began, time.Now()) {
			if took := a.answered.Sub(a.asked); took >= limit {
				t.Errorf("%s waited for %s while %d strangers did", known.name, took, len(strangers))
			}
		}
	}
	host.delay.Store(0)
	stranger := newCaller(t, "a stranger", e.to(u.as("stranger", "users")))
	all = append(all, stranger)
	poll.Eventually(t, patience, "strangers are served", func(ctx context.Context) error { return stranger.ask(ctx).err })
	poll.Eventually(t, patience, "the host is asked nothing more", func(context.Context) error {
		if left := host.waiting.Load(); left > 0 {
			return fmt.Errorf("%d questions are left", left)
		}
		return nil
	})
	for _, c := range all {
		c.leave()
	}
	l.Verdict(t)
}
