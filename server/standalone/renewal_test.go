// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiregistration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

const year = 365 * 24 * time.Hour

// TestCertificatesAreRenewedWhileItRuns has a clock that is behind and moves up to today, so that what is made before and after is valid.
func TestCertificatesAreRenewedWhileItRuns(t *testing.T) {
	t.Parallel()
	ahead := 10*year*2/3 + 24*time.Hour // after two thirds of an authority, and of all that it signs
	clock := clocktesting.NewFakeClock(time.Now().Add(-ahead))
	lasting := func(o *Options) {
		o.Lifetimes.Clock = clock
		o.Lifetimes.Leaf = 8 * year // valid today, so that the start works
	}
	r := begin(t, t.TempDir(), lasting)
	r.waitReady(t)
	extension := r.server.made.extension
	before := map[string]*x509.Certificate{}
	for name, file := range filesOf(r) {
		before[name] = certificateIn(t, file)
	}
	shownBefore := shownAt(t, r)
	config := fromFile(t, r)
	watched := watchConfigMaps(t, config)

	clock.Step(ahead)
	deadline := time.Now().Add(patience)
	for !bytes.Equal(bundleOf(t, r), r.server.made.servingCA.CertPEM()) || shownAt(t, r).Equal(shownBefore) {
		if time.Now().After(deadline) {
			t.Fatalf("certificates have not been renewed within %s", patience)
		}
	}
	for name, file := range filesOf(r) {
		if certificateIn(t, file).Equal(before[name]) {
			t.Errorf("%s is as before", name)
		}
	}
	if served, _ := extension.CurrentCertKeyContent(); !bytes.Equal(served, readFile(t, filepath.Join(r.dir, "pki", "extension.crt"))) {
		t.Error("the extension apiserver shows another certificate than the new one")
	}
	renewed := fromFile(t, r)
	if bytes.Equal(renewed.CertData, config.CertData) || bytes.Equal(renewed.CAData, config.CAData) {
		t.Error("the kubeconfig is as before")
	}
	for name, config := range map[string]*rest.Config{"before": config, "now": renewed, "in code": r.server.AdminConfig()} {
		createClaim(t, config, strings.ReplaceAll(name, " ", "")+".example.com")
	}
	if err := watched(); err != nil {
		t.Errorf("the watch of before: %v", err)
	}
}

// TestRenewalsThatFailAreTriedAgain has a directory of certificates that cannot be written for a while.
func TestRenewalsThatFailAreTriedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clock := clocktesting.NewFakeClock(time.Now().Add(-2 * year))
	o := NewOptions()
	o.DataDir, o.Lifetimes.Clock = dir, clock
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	server := New(completed)
	if server.made, err = makeCertificates(filepath.Join(dir, "pki"), loopback(), o.Lifetimes); err != nil {
		t.Fatal(err)
	}
	server.hostURL = "https://127.0.0.1:1"
	host := newClient(server.hostURL, server.made.controllers, server.made.servingCA.CertPEM)
	renewal := &renewal{server: server, made: server.made, clients: []*client{host}}
	if err := renewal.writeKubeconfigs(); err != nil {
		t.Fatal(err)
	}
	before, transport := readFile(t, server.Kubeconfig()), host.WrappedRoundTripper()
	if err := renewal.pass(t.Context()); err != nil || !bytes.Equal(before, readFile(t, server.Kubeconfig())) || host.WrappedRoundTripper() != transport {
		t.Errorf("a pass with nothing to do: %v", err)
	}

	clock.Step(2 * year)
	// What is in the way is a directory that has the name of the file.
	kubeconfig := server.Kubeconfig()
	if err := errors.Join(os.Remove(kubeconfig), os.MkdirAll(filepath.Join(kubeconfig, "x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := renewal.pass(t.Context()); err == nil || !strings.Contains(err.Error(), "write kubeconfig") {
		t.Errorf("got %v", err)
	}
	if err := os.RemoveAll(kubeconfig); err != nil {
		t.Fatal(err)
	}
	if err := renewal.pass(t.Context()); err != nil {
		t.Error(err)
	}
	if bytes.Equal(before, readFile(t, kubeconfig)) {
		t.Error("the kubeconfig is as before")
	}
	if host.WrappedRoundTripper() == transport {
		t.Error("the controllers' connections are those of before")
	}
}

// filesOf are the certificates of a process.
func filesOf(r *running) map[string]string {
	files := map[string]string{}
	for _, name := range []string{
		"serving-ca", "client-ca", "front-proxy-ca", "control-plane", "extension", "admin", "extension-client", "controllers-client", "front-proxy-client",
	} {
		files[name] = filepath.Join(r.dir, "pki", name+".crt")
	}
	return files
}

func certificateIn(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(file, strings.TrimSuffix(file, ".crt")+".key")
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// shownAt is the certificate that the host shows to a new client.
func shownAt(t *testing.T, r *running) *x509.Certificate {
	t.Helper()
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it is looked at
	connection, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.server.AdminConfig().Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0]
}

func fromFile(t *testing.T, r *running) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", r.server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// bundleOf is what the host believes the extension apiserver by.
func bundleOf(t *testing.T, r *running) []byte {
	t.Helper()
	client, err := apiregistration.NewForConfig(r.server.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	service, err := client.APIServices().Get(t.Context(), "v1alpha1.features.k8s.io", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service.Spec.CABundle
}

// watchConfigMaps opens a watch. What it returns makes sure that it is still the same one.
func watchConfigMaps(t *testing.T, config *rest.Config) (alive func() error) {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	configMaps := client.CoreV1().ConfigMaps("default")
	watch, err := configMaps.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=watched"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	return func() error {
		if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "watched"}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		select {
		case _, ok := <-watch.ResultChan():
			if !ok {
				return errors.New("it has ended")
			}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
