// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package standalone

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/fencing"
	nodev1alpha1 "github.com/kube-annex/annex/apis/node/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/etcd"
	"github.com/kube-annex/annex/server/extension"
	"github.com/kube-annex/annex/server/internal/options"
)

// TestLateWritesThroughTheHost has the aggregator pass the term on to the extension apiserver, which has the Leases in its etcd.
func TestLateWritesThroughTheHost(t *testing.T) {
	t.Parallel()
	server := run(t, t.TempDir())
	leases := leasesOf(t, server)
	lease, old := lead(t, leases, nil, "one")
	late := balloonsAs(t, server.server.AdminConfig(), old)
	if err := late("node-a"); err != nil {
		t.Fatalf("a write of the leader: %v", err)
	}
	_, current := lead(t, leases, lease, "two")
	wantLate(t, late("node-b"), "two holds the Lease now, after 1 transitions")
	// Only a server that asks the host before the write looks at dry runs; here the transaction of the write does.
	if err := late("node-b", metav1.DryRunAll); err != nil {
		t.Errorf("a late dry run: got %v, want it not to be looked at, since the server has the Leases in its etcd", err)
	}
	if err := balloonsAs(t, server.server.AdminConfig(), current)("node-b"); err != nil {
		t.Errorf("a write of the next leader: %v", err)
	}
}

// TestLateWritesElsewhere starts another extension apiserver with an etcd of its own, which has to ask the host.
func TestLateWritesElsewhere(t *testing.T) {
	t.Parallel()
	server := run(t, t.TempDir())
	config := startElsewhere(t, server)
	leases := leasesOf(t, server)
	lease, old := lead(t, leases, nil, "one")
	late := balloonsAs(t, config, old)
	if err := late("node-a"); err != nil {
		t.Fatalf("a write of the leader: %v", err)
	}
	lead(t, leases, lease, "two")
	wantLate(t, late("node-b"), "two holds the Lease now, after 1 transitions")
	wantLate(t, late("node-b", metav1.DryRunAll), "two holds the Lease now, after 1 transitions")
	if err := leases.Delete(t.Context(), "leader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantLate(t, late("node-b"), "the Lease is gone")
}

func wantLate(t *testing.T, err error, because string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !fencing.IsTermOver(err) || !strings.Contains(err.Error(), "is over: "+because) {
		t.Errorf("a late write: got %v, want 403 because %s", err, because)
	}
}

func leasesOf(t *testing.T, server *running) coordinationclient.LeaseInterface {
	t.Helper()
	client, err := kubernetes.NewForConfig(server.server.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client.CoordinationV1().Leases("default")
}

// lead takes the Lease for the holder; nil makes it.
func lead(t *testing.T, leases coordinationclient.LeaseInterface, lease *coordinationv1.Lease, holder string) (*coordinationv1.Lease, fencing.Term) {
	t.Helper()
	var err error
	transitions := int32(0)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions}
	if lease == nil {
		lease, err = leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leader"}, Spec: spec}, metav1.CreateOptions{})
	} else {
		transitions = *lease.Spec.LeaseTransitions + 1
		next := lease.DeepCopy()
		next.Spec = spec
		lease, err = leases.Update(t.Context(), next, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return lease, fencing.Current(lease)
}

// balloonsAs returns what creates a NodeBalloon under the term.
func balloonsAs(t *testing.T, config *rest.Config, term fencing.Term) func(name string, dryRun ...string) error {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return termSender{next, term} })
	client, err := versioned.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string, dryRun ...string) error {
		_, err := client.NodeV1alpha1().NodeBalloons().Create(t.Context(), &nodev1alpha1.NodeBalloon{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       nodev1alpha1.NodeBalloonSpec{BalloonSize: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

type termSender struct {
	next http.RoundTripper
	term fencing.Term
}

func (s termSender) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Annex-Term", s.term.String())
	return s.next.RoundTrip(request)
}

// startElsewhere runs an extension apiserver for the host, with the rights of one and apart from its store. It returns a
// configuration for the administrator.
func startElsewhere(t *testing.T, host *running) *rest.Config {
	t.Helper()
	store, err := etcd.NewOptions().Complete(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	backend, err := store.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Stop)
	directory, err := pki.Open(filepath.Join(host.dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("serving-ca", "")
	if err != nil {
		t.Fatal(err)
	}
	serving, err := authority.Serving("elsewhere", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	o := extension.NewOptions()
	o.Serving = options.NewServing("", loopback(), 0)
	if o.Serving.Listener, err = o.Serving.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Serving.CertFile, o.Serving.KeyFile = serving.CertFile, serving.KeyFile
	o.Host.Kubeconfig = filepath.Join(host.dir, "pki", "extension.kubeconfig")
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	server := extension.New(completed, backend)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the other extension apiserver ended with %v", err)
		}
	})
	select {
	case <-server.Ready():
	case <-time.After(patience):
		t.Fatalf("the other extension apiserver is not ready after %s", patience)
	}
	config := host.server.AdminConfig()
	config.Host = "https://" + address(o.Serving.Listener)
	return config
}
