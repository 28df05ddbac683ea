// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controllermanager"
	"github.com/kube-annex/annex/test/framework"
	"github.com/kube-annex/annex/test/framework/poll"
)

// replica is `annex controllers` in the test's process.
type replica struct {
	address string
	ready   <-chan struct{}
	cancel  context.CancelFunc
	ended   chan error
}

// startControllers runs a replica whose Leases are in the namespace default, apart from those of the server's own controllers.
func startControllers(t *testing.T, server *framework.Server, host *rest.Config) *replica {
	t.Helper()
	o := controllermanager.NewOptions()
	o.Host.Config = host
	o.Groups.LeaseNamespace = "default"
	o.ClientCAFile = filepath.Join(server.DataDir(), "pki", "client-ca.crt")
	o.Leadership.Timings.LeaseDuration, o.Leadership.Timings.RenewDeadline = 3*time.Second, 2*time.Second
	o.Leadership.Timings.RetryPeriod = 500 * time.Millisecond
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Serving.Listener = listener
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	running := controllermanager.New(completed)
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{address: "https://" + listener.Addr().String(), ready: running.Ready(), cancel: cancel, ended: make(chan error, 1)}
	go func() { r.ended <- running.Run(ctx) }()
	t.Cleanup(func() { r.stop(t) })
	return r
}

func (r *replica) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("the controllers ended with %v", err)
		}
		r.ended <- nil
	case <-time.After(time.Minute):
		t.Fatal("the controllers did not stop")
	}
}

// get returns the status and the body of a path. Without a client certificate the request is anonymous.
func (r *replica) get(ctx context.Context, path string, certificates ...tls.Certificate) (int, string, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // who the server is does not matter here
		Certificates:       certificates,
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// waitFor polls a path until the answer has the status and the text.
func (r *replica) waitFor(t *testing.T, path string, status int, text string) {
	t.Helper()
	poll.Eventually(t, time.Minute, fmt.Sprintf("%s is %d %q", path, status, text), func(ctx context.Context) error {
		got, body, err := r.get(ctx, path)
		return errors.Join(err, poll.Want(got == status && strings.Contains(body, text), fmt.Sprintf("%d %q", got, body)))
	})
}

func TestControllersRunInOneReplicaAtATime(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	leader := startControllers(t, server, server.Config)
	leader.waitFor(t, "/healthz/leadership", http.StatusOK, "observer: leading")
	follower := startControllers(t, server, server.Config)
	for _, r := range []*replica{leader, follower} {
		select {
		case <-r.ready:
		case err := <-r.ended:
			t.Fatalf("the controllers ended with %v", err)
		case <-time.After(time.Minute):
			t.Fatal("a replica is not ready")
		}
	}
	follower.waitFor(t, "/healthz/leadership", http.StatusOK, "observer: follower")
	follower.waitFor(t, "/readyz", http.StatusOK, "")

	former, err := holder(t, server)
	if err != nil {
		t.Fatal(err)
	}
	leader.stop(t)
	if now, err := holder(t, server); err != nil || now == former {
		t.Errorf("the Lease is held by %q (%v) after its holder has stopped", now, err)
	}
	follower.waitFor(t, "/healthz/leadership", http.StatusOK, "observer: leading")
}

func TestWhoMayReadTheControllersMetrics(t *testing.T) {
	t.Parallel()
	server := framework.Start(t)
	r := startControllers(t, server, server.Config)
	r.waitFor(t, "/readyz", http.StatusOK, "")
	for path, want := range map[string]int{
		"/healthz": http.StatusOK, "/livez": http.StatusOK, "/healthz/leadership": http.StatusOK,
		"/metrics": http.StatusUnauthorized, "/debug/pprof/": http.StatusUnauthorized, "/configz": http.StatusUnauthorized,
	} {
		if got, body, err := r.get(t.Context(), path); err != nil || got != want {
			t.Errorf("anonymously %s is %d %q (%v), want %d", path, got, body, err, want)
		}
	}
	for name, tc := range map[string]struct {
		groups []string
		want   int
	}{
		"administrator": {[]string{"system:masters"}, http.StatusOK},
		"someone":       {nil, http.StatusForbidden},
	} {
		certificate := clientCertificate(t, server, name, tc.groups...)
		got, body, err := r.get(t.Context(), "/metrics", certificate)
		if err != nil || got != tc.want {
			t.Errorf("/metrics for the %s is %d %.80q (%v), want %d", name, got, body, err, tc.want)
		}
	}
}

// TestControllersWithoutRightsSaySo: nothing runs unheld, and readiness tells why.
func TestControllersWithoutRightsSaySo(t *testing.T) {
	t.Parallel()
	server := framework.SharedServer()
	someone := rest.AnonymousClientConfig(server.Config)
	pair := clientPair(t, server, "someone")
	someone.CertFile, someone.KeyFile = pair.CertFile, pair.KeyFile
	r := startControllers(t, server, someone)
	r.waitFor(t, "/healthz/leadership", http.StatusInternalServerError, `leases.coordination.k8s.io "annex-observer" is forbidden`)
	r.waitFor(t, "/readyz", http.StatusInternalServerError, "[-]leadership failed")
	r.waitFor(t, "/livez", http.StatusOK, "")
}

func holder(t *testing.T, server *framework.Server) (string, error) {
	t.Helper()
	lease, err := server.Kubernetes.CoordinationV1().Leases("default").Get(t.Context(), "annex-observer", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	if ptr.Deref(lease.Spec.HolderIdentity, "") == "" && lease.Annotations["leadership.annex.io/released"] == "" {
		return "", fmt.Errorf("the Lease has no holder and does not say that it was released: %v", lease)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

func clientPair(t *testing.T, server *framework.Server, name string, groups ...string) pki.Pair {
	t.Helper()
	directory, err := pki.Open(filepath.Join(server.DataDir(), "pki"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("client-ca", "")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Client("test-"+name, name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func clientCertificate(t *testing.T, server *framework.Server, name string, groups ...string) tls.Certificate {
	t.Helper()
	pair := clientPair(t, server, name, groups...)
	certificate, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
