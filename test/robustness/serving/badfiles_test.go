// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
	"github.com/kube-annex/annex/test/robustness/replicas"
	"github.com/kube-annex/annex/test/robustness/traffic"
)

// TestCertificateFilesAreBad puts into the files with the serving certificate and the authority of clients what is none. The server goes on
// with the last good ones, says so, and takes the next good ones.
func TestCertificateFilesAreBad(t *testing.T) {
	t.Parallel()
	seed, _ := seeded(t)
	h := newHost(t)
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p := newProgram(t, "controlplane", "", "controlplane", "--data-dir="+h.data(), "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(port),
		"--tls-cert-file="+h.file("host.crt"), "--tls-private-key-file="+h.file("host.key"), "--client-ca-file="+h.file("client-ca.crt"))
	p.start()
	both := bundle(h.authority("serving-ca").CertPEM(), h.authority("serving-ca-2").CertPEM())
	as := func(authority string) *rest.Config {
		config := h.as(authority, "admin", "system:masters")
		config.Host, config.CAFile, config.CAData = "https://"+at, "", both
		return config
	}
	client, err := kubernetes.NewForConfig(as("client-ca"))
	if err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the control plane is ready", func(ctx context.Context) error {
		return errors.Join(p.alive(), client.Discovery().RESTClient().Get().AbsPath("/readyz").MaxRetries(0).Do(ctx).Error())
	})
	l := traffic.Start(t, traffic.Options{
		Seed: seed, Objects: traffic.ConfigMaps("default"), Configs: []*rest.Config{as("client-ca")}, Clients: 4, Keys: 4,
		Goroutines: map[string]func(context.Context) (int, error){"controlplane": traffic.Goroutines(as("client-ca"))},
	})
	l.WaitFor(t, 10)

	other := h.serving("serving-ca-2", "other")
	stranger, err := os.ReadFile(other.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	const complaint = "The serving certificate in the files cannot be used; serving with the last good one"
	said := 0
	for i, bad := range []struct {
		name    string
		content []byte
	}{
		{"nothing", nil},
		{"no certificate", []byte("-----BEGIN CERTIFICATE-----\nbm90aGluZw==\n-----END CERTIFICATE-----\n")},
		{"half a certificate", stranger[:len(stranger)/2]},
		{"the certificate of another key", stranger},
	} {
		if i < quickOr(2, 0) {
			continue
		}
		h.use("host.crt", bad.content)
		said++
		poll.Eventually(t, patience, "the server complains about "+bad.name, func(context.Context) error {
			if got := strings.Count(p.process.Log(), complaint); got < said {
				return errors.New("it does not")
			}
			return nil
		})
		shown(t, at, "serving-ca")
	}
	if err := os.Remove(h.file("host.crt")); err != nil {
		t.Fatal(err)
	}
	poll.Eventually(t, patience, "the server complains that there is no file", func(context.Context) error {
		if strings.Count(p.process.Log(), complaint) <= said {
			return errors.New("it does not")
		}
		return nil
	})
	shown(t, at, "serving-ca")
	h.usePair("host", other)
	shown(t, at, "serving-ca-2")

	h.use("client-ca.crt", []byte("nobody"))
	poll.Eventually(t, patience, "the server complains about the authority of clients", func(context.Context) error {
		if log := p.process.Log(); !strings.Contains(log, "error loading CA bundle") && !strings.Contains(log, "client-ca::"+h.file("client-ca.crt")+`" err=`) {
			return errors.New("it does not")
		}
		return nil
	})
	answers(t, as("client-ca"), http.StatusOK)
	answers(t, as("client-ca-2"), http.StatusUnauthorized)
	h.use("client-ca.crt", bundle(h.authority("client-ca").CertPEM(), h.authority("client-ca-2").CertPEM()))
	answers(t, as("client-ca-2"), http.StatusOK)
	answers(t, as("client-ca"), http.StatusOK)
	l.Recovered(t, patience)
	if failed := l.Failed(); len(failed) > 0 {
		t.Errorf("%d requests failed, the first: %s", len(failed), failed[0])
	}
	l.Verdict(t)
}

// answers waits until a control plane answers somebody, over a new connection, with a code.
func answers(t *testing.T, config *rest.Config, code int) {
	t.Helper()
	poll.Eventually(t, patience, config.CertFile+" is answered with "+strconv.Itoa(code), func(ctx context.Context) error {
		via, err := connect(config)
		if err != nil {
			return err
		}
		defer via.CloseIdleConnections()
		err = replicas.Ask(ctx, via, config.Host+collections[0])
		if code != http.StatusOK && err != nil && strings.HasPrefix(err.Error(), strconv.Itoa(code)) {
			return nil
		}
		if code != http.StatusOK && err == nil {
			return errors.New(http.StatusText(http.StatusOK))
		}
		return err
	})
}
