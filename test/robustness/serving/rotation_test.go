// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"

	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// secured is an etcd in this process that wants to see certificates.
type secured struct {
	t       *testing.T
	config  *embed.Config
	address string
	running *embed.Etcd
}

// newSecured trusts the authorities in a file. It does not start it.
func newSecured(h *host) *secured {
	h.t.Helper()
	port, err := cluster.FreePort()
	if err != nil {
		h.t.Fatal(err)
	}
	serving := h.serving("etcd-serving-ca", "etcd")
	s := &secured{t: h.t, address: fmt.Sprintf("127.0.0.1:%d", port), config: embed.NewConfig()}
	at := []url.URL{{Scheme: "https", Host: s.address}}
	s.config.Dir = filepath.Join(h.dir, "etcd")
	s.config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	s.config.ListenPeerUrls = nil
	s.config.ListenClientUrls, s.config.AdvertiseClientUrls = at, at
	s.config.TickMs, s.config.ElectionMs = 25, 250
	s.config.UnsafeNoFsync = true
	s.config.ClientTLSInfo = transport.TLSInfo{CertFile: serving.CertFile, KeyFile: serving.KeyFile, ClientCertAuth: true, TrustedCAFile: h.file("etcd-clients-ca.crt")}
	h.t.Cleanup(s.stop)
	return s
}

func (s *secured) start() {
	s.t.Helper()
	var err error
	if s.running, err = embed.StartEtcd(s.config); err != nil {
		s.t.Fatal(err)
	}
	<-s.running.Server.ReadyNotify()
}

func (s *secured) stop() {
	if s.running != nil {
		s.running.Close()
		s.running = nil
	}
}

// rotation is a chain of servers whose certificates are replaced while clients work.
type rotation struct {
	*host
	t         *testing.T
	extension *extension
	etcd      *secured
	load      *traffic.Load
	watchers  *crowd
}

// startRotation starts everything. Clients sign in with an authority that stays.
func startRotation(t *testing.T) *rotation {
	t.Helper()
	seed, _ := seeded(t)
	r := &rotation{t: t, host: newHost(t)}
	r.use("etcd-clients-ca.crt", r.authority("etcd-clients-ca").CertPEM())
	r.use("etcd-ca.crt", r.authority("etcd-serving-ca").CertPEM())
	r.usePair("etcd-client", r.client("etcd-clients-ca", "apiservers"))
	r.use("client-ca.crt", bundle(r.authority("client-ca").CertPEM(), r.authority("lasting-ca").CertPEM()))
	lasting := r.as("lasting-ca", "admin", "system:masters")
	// All clients here know all authorities from the start; which of them is in use is up to the servers.
	lasting.CAFile, lasting.CAData = "", bundle(r.authority("serving-ca").CertPEM(), r.authority("serving-ca-2").CertPEM())
	r.admin, r.extensions = lasting, "lasting-ca"
	r.use("serving-ca.crt", lasting.CAData)
	r.etcd = newSecured(r.host)
	r.etcd.start()
	servers := "https://" + r.etcd.address
	storage := map[string]string{"etcd": servers, "etcd-ca": r.file("etcd-ca.crt"), "etcd-cert": r.file("etcd-client.crt"), "etcd-key": r.file("etcd-client.key")}
	var args []string
	for name, value := range storage {
		args = append(args, "-"+name+"="+value)
	}
	r.extension = r.replica("extension", "--etcd-servers="+servers, "--etcd-cafile="+storage["etcd-ca"], "--etcd-certfile="+storage["etcd-cert"], "--etcd-keyfile="+storage["etcd-key"])
	r.host.start(append(args, "-behind="+r.extension.address)...)
	r.extension.start()
	r.extension.waitReady()
	r.register()
	direct := rest.CopyConfig(lasting)
	direct.Host = "https://" + r.extension.address
	r.load = traffic.Start(t, traffic.Options{
		Seed: seed, Objects: traffic.ClusterClaims(), Configs: []*rest.Config{lasting, direct}, Clients: 4,
		Goroutines: map[string]func(context.Context) (int, error){"host": traffic.Goroutines(lasting), "extension": traffic.Goroutines(direct)},
	})
	r.watchers = &crowd{}
	ctx, stop := context.WithCancel(context.Background())
	r.watchers.stop = stop
	t.Cleanup(r.watchers.end)
	for _, config := range []*rest.Config{lasting, direct, r.direct(r.as("client-ca", "early", "system:masters"))} {
		via, err := connect(config)
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{via: via, url: config.Host + collections[1], from: "0"}
		r.watchers.watchers = append(r.watchers.watchers, w)
		r.watchers.running.Go(func() { w.run(ctx) })
	}
	poll.Eventually(t, patience, "the watchers watch", r.watchers.all)
	r.load.WaitFor(t, 20)
	return r
}

// direct is a way around the host.
func (r *rotation) direct(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Host, out.CAFile, out.CAData = "https://"+r.extension.address, "", r.admin.CAData
	return out
}

func bundle(all ...[]byte) []byte { return bytes.Join(all, []byte("\n")) }

// well fails if a request has failed or a watch has ended since the start.
func (r *rotation) well(what string) {
	r.t.Helper()
	took := r.load.Recovered(r.t, patience)
	if failed := r.load.Failed(); len(failed) > 0 {
		r.t.Fatalf("%s: %d requests failed, the first: %s", what, len(failed), failed[0])
	}
	r.watched(what)
	r.t.Logf("%s: no request failed and no watch ended; all was seen %s later", what, took.Round(time.Millisecond))
}

func (r *rotation) watched(what string) {
	r.t.Helper()
	for i, w := range r.watchers.watchers {
		w.mu.Lock()
		watches, err := w.watches, w.failed
		w.mu.Unlock()
		if watches != 1 || err != nil {
			r.t.Fatalf("%s: watcher %d has had %d watches (%v)", what, i, watches, err)
		}
	}
}

// served waits until somebody's requests are answered with a code, each over a connection of its own.
func (r *rotation) served(config *rest.Config, code int) {
	r.t.Helper()
	poll.Eventually(r.t, patience, fmt.Sprintf("requests to %s are answered with %d", config.Host, code), func(ctx context.Context) error {
		c := newCaller(r.t, "somebody", separate(config, ""))
		defer c.leave()
		if a := c.ask(ctx); a.code != code {
			return fmt.Errorf("%d: %w", a.code, a.err)
		}
		return nil
	})
}

// shown waits until a server shows a certificate.
func shown(t *testing.T, address, issuer string) {
	t.Helper()
	poll.Eventually(t, patience, address+" has a certificate of "+issuer, func(context.Context) error {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // clients verify it; this is about which one it is
		if err != nil {
			return err
		}
		defer func() { _ = connection.Close() }()
		if got := connection.ConnectionState().PeerCertificates[0].Issuer.CommonName; got != issuer {
			return fmt.Errorf("it is of %s", got)
		}
		return nil
	})
}

// published waits until the host tells extension servers of just these authorities. It adds to what is there, as replicas of a
// kube-apiserver do: who does not want to wait until an old one has expired deletes it, as is done here again and again.
func (r *rotation) published(key string, authorities ...[]byte) {
	r.t.Helper()
	client, err := kubernetes.NewForConfig(r.admin)
	if err != nil {
		r.t.Fatal(err)
	}
	configMaps, deleted := client.CoreV1().ConfigMaps(metav1.NamespaceSystem), time.Time{}
	poll.Eventually(r.t, patience, "the host publishes "+key, func(ctx context.Context) error {
		found, err := configMaps.Get(ctx, "extension-apiserver-authentication", metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := strings.Count(found.Data[key], "BEGIN CERTIFICATE")
		if got > len(authorities) && time.Since(deleted) > time.Second {
			deleted = time.Now()
			return errors.Join(errors.New("there are too many authorities"), configMaps.Delete(ctx, found.Name, metav1.DeleteOptions{}))
		}
		for _, authority := range authorities {
			if !strings.Contains(found.Data[key], strings.TrimSpace(string(authority))) {
				return errors.New("one of the authorities is not there")
			}
		}
		if got != len(authorities) {
			return fmt.Errorf("there are %d authorities, want %d", got, len(authorities))
		}
		return nil
	})
}

// TestCertificatesAreReplaced replaces all certificates of a chain and their authorities, one after the other, while clients work through
// the host and around it. No request fails and no watch ends, except when etcd is restarted to see that it believes the new one alone.
func TestCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	r := startRotation(t)
	r.servingCertificates()
	r.clientAuthority()
	r.frontProxy()
	r.etcdClients()
	r.load.Verdict(t)
}

func (r *rotation) servingCertificates() {
	both := bundle(r.authority("serving-ca").CertPEM(), r.authority("serving-ca-2").CertPEM())
	r.trustServing(both)
	r.usePair("extension", r.serving("serving-ca-2", "extension"))
	r.usePair("host", r.serving("serving-ca-2", "host"))
	shown(r.t, r.extension.address, "serving-ca-2")
	shown(r.t, strings.TrimPrefix(r.url, "https://"), "serving-ca-2")
	r.trustServing(r.authority("serving-ca-2").CertPEM())
	r.served(r.admin, http.StatusOK)
	r.well("serving certificates and their authority")
}

// trustServing tells the host whose certificates the extension apiserver has.
func (r *rotation) trustServing(authorities []byte) {
	r.t.Helper()
	client, err := apiregistrationclient.NewForConfig(r.admin)
	if err != nil {
		r.t.Fatal(err)
	}
	services, err := client.APIServices().List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, service := range services.Items {
		if service.Spec.Service == nil {
			continue
		}
		patch := fmt.Sprintf(`{"spec":{"caBundle":%q}}`, base64Of(authorities))
		if _, err := client.APIServices().Patch(r.t.Context(), service.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	r.waitAvailable(client)
}

func (r *rotation) clientAuthority() {
	old, next := r.authority("client-ca").CertPEM(), r.authority("client-ca-2").CertPEM()
	lasting := r.authority("lasting-ca").CertPEM()
	early, late := r.as("client-ca", "early", "system:masters"), r.as("client-ca-2", "late", "system:masters")
	for _, config := range []*rest.Config{early, late} {
		config.CAFile, config.CAData = "", r.admin.CAData
	}
	r.served(late, http.StatusUnauthorized)
	r.use("client-ca.crt", bundle(old, lasting, next))
	r.published("client-ca-file", old, lasting, next)
	for _, config := range []*rest.Config{early, late} {
		r.served(config, http.StatusOK)
		r.served(r.direct(config), http.StatusOK)
	}
	r.use("client-ca.crt", bundle(lasting, next))
	r.published("client-ca-file", lasting, next)
	for config, code := range map[*rest.Config]int{early: http.StatusUnauthorized, late: http.StatusOK} {
		r.served(config, code)
		r.served(r.direct(config), code)
	}
	r.well("the authority of clients")
}

func (r *rotation) frontProxy() {
	const key = "requestheader-client-ca-file"
	old, next := r.authority("proxy-ca").CertPEM(), r.authority("proxy-ca-2").CertPEM()
	r.use("proxy-ca.crt", bundle(old, next))
	r.published(key, old, next)
	r.usePair("proxy", r.client("proxy-ca-2", proxyUser))
	const loaded = `"Loaded a new cert/key pair" name="aggregator-proxy-cert`
	poll.Eventually(r.t, patience, "the host introduces users with its new certificate", func(context.Context) error {
		if strings.Count(r.process.Log(), loaded) < 2 {
			return errors.New("it does not say so")
		}
		return nil
	})
	r.use("proxy-ca.crt", next)
	r.published(key, next)
	r.served(r.admin, http.StatusOK)
	r.well("the front proxy's certificate and its authority")
}

func (r *rotation) etcdClients() {
	old, next := r.authority("etcd-clients-ca").CertPEM(), r.authority("etcd-clients-ca-2").CertPEM()
	r.use("etcd-clients-ca.crt", bundle(old, next))
	r.usePair("etcd-client", r.client("etcd-clients-ca-2", "apiservers"))
	r.well("files of etcd's client certificate")
	// etcd has read its authorities when it was started.
	r.etcd.stop()
	r.use("etcd-clients-ca.crt", next)
	r.etcd.start()
	took := r.load.Recovered(r.t, patience)
	r.watched("etcd was restarted, which believes the new certificate alone")
	r.t.Logf("etcd was restarted and believes the new certificate alone: no watch ended; all clients were back %s later", took.Round(time.Millisecond))
}

func base64Of(content []byte) string { return base64.StdEncoding.EncodeToString(content) }
