// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// extension is `annex apiserver` beside its host.
type extension struct {
	*program
	address string
	ca      *pki.Authority
	serving pki.Pair
}

// newExtension does not start it. Its certificate is given to it, so that it leaves the host's APIServices alone.
func newExtension(t *testing.T, name, kubeconfig string, args ...string) *extension {
	t.Helper()
	dir := t.TempDir()
	e := &extension{}
	directory, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	if e.ca, err = directory.Authority("ca", "extension-ca"); err != nil {
		t.Fatal(err)
	}
	if e.serving, err = e.ca.Serving("serving", servedAs...); err != nil {
		t.Fatal(err)
	}
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	e.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	e.program = newProgram(t, name, "", append([]string{
		"apiserver", "--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + e.serving.CertFile, "--tls-private-key-file=" + e.serving.KeyFile,
	}, args...)...)
	return e
}

// servedAs are the names by which an extension apiserver is reached.
var servedAs = []string{"127.0.0.1", "localhost", "annex-apiserver.annex-system.svc"}

// to returns a configuration of somebody's that leads to the extension apiserver directly.
func (e *extension) to(config *rest.Config) *rest.Config {
	out := separate(config, e.address)
	out.CAFile, out.CAData = e.ca.CertFile(), nil
	return out
}

// waitReady waits until it is ready.
func (e *extension) waitReady() {
	e.t.Helper()
	client, err := kubernetes.NewForConfig(e.to(&rest.Config{}))
	if err != nil {
		e.t.Fatal(err)
	}
	poll.Eventually(e.t, patience, e.name+" is ready", func(ctx context.Context) error {
		if err := e.alive(); err != nil {
			e.t.Fatal(err)
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).MaxRetries(0).Do(ctx).Error()
	})
}
