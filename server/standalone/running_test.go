// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/test/framework/syncbuffer"
)

// patience is how long anything may take on a busy machine.
const patience = time.Minute

// running is a server that a test has started.
type running struct {
	server *Server
	dir    string
	out    *syncbuffer.Buffer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// run starts a server and waits until it is ready.
func run(t *testing.T, dir string) *running {
	t.Helper()
	r := begin(t, dir)
	r.waitReady(t)
	return r
}

// begin starts a server on free ports. It is stopped with the test at the latest. Each function may change the options first.
func begin(t *testing.T, dir string, change ...func(*Options)) *running {
	t.Helper()
	o := NewOptions()
	o.DataDir = dir
	o.ControlPlane.Serving.Port, o.Extension.Serving.Port = 0, 0
	o.Controllers.ClusterID.Source = clusterid.SourceNone // claims are counted
	// The listener is given so that tests know the address.
	var err error
	if o.Extension.Serving.Listener, err = o.Extension.Serving.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(o)
	}
	r := &running{dir: dir, out: &syncbuffer.Buffer{}, ended: make(chan struct{})}
	o.Out = r.out
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	r.server = New(completed)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go func() {
		defer close(r.ended)
		r.err = r.server.Run(ctx)
	}()
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *running) waitReady(t *testing.T) {
	t.Helper()
	select {
	case <-r.server.Ready():
	case <-r.ended:
		t.Fatalf("server ended before it was ready: %v\n%s", r.err, r.out.String())
	case <-time.After(patience):
		t.Fatalf("server is not ready after %s:\n%s", patience, r.out.String())
	}
}

// waitFor returns when the server has said the text.
func (r *running) waitFor(t *testing.T, text string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !strings.Contains(r.out.String(), text) {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("server did not say %q within %s:\n%s", text, patience, r.out.String())
		}
	}
}

func await(t *testing.T, r *running, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("server did not %s within %s:\n%s", what, patience, r.out.String())
	}
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case <-r.ended:
		if r.err != nil {
			t.Errorf("server ended with %v\n%s", r.err, r.out.String())
		}
	case <-time.After(patience):
		t.Fatalf("server has not stopped after %s:\n%s", patience, r.out.String())
	}
}

func createClaim(t *testing.T, config *rest.Config, name string) {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	claim := &multiclusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multiclusterv1alpha1.ClusterClaimSpec{Value: "value"}}
	if _, err := client.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func claimsOf(t *testing.T, config *rest.Config) []string {
	t.Helper()
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.MulticlusterV1alpha1().ClusterClaims().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, claim := range list.Items {
		names = append(names, claim.Name)
	}
	return names
}

// httpClient speaks with the certificate of the configuration to any address.
func httpClient(t *testing.T, as *rest.Config) *http.Client {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // who the server is does not matter here
	if as != nil {
		secure, err := rest.TLSConfigFor(as)
		if err != nil {
			t.Fatal(err)
		}
		config.GetClientCertificate = secure.GetClientCertificate
		config.Certificates = secure.Certificates
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

func portOf(reference *apiregistrationv1.ServiceReference) string {
	if reference.Port == nil {
		return "none"
	}
	return (&net.TCPAddr{Port: int(*reference.Port)}).String()[1:]
}
