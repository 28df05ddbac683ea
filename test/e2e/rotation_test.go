// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/generated/clientset/versioned"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/test/framework/cluster"
	"github.com/kube-annex/annex/test/framework/poll"
)

// TestCertificatesRotate runs a server whose certificates live for seconds and whose authorities are in the cluster's
// Secret. One watch through the host stays open while certificates and authority are replaced, and no request fails.
func TestCertificatesRotate(t *testing.T) {
	dir := t.TempDir()
	etcd, err := cluster.StartEtcd(t.Context(), host.Bin(), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	port, err := cluster.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := host.Identity(user)
	if err != nil {
		t.Fatal(err)
	}
	const namespace = "rotation"
	flags := registrationFlags(t, namespace)
	a := &annex{
		logFile: filepath.Join(dir, "annex.log"),
		args: []string{
			"apiserver", "--kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--etcd-servers=" + etcd.Servers(),
			"--namespace=" + namespace, "--serving-cert-lifetime=6s", "--serving-ca-lifetime=18s",
		},
	}
	if a.client, err = versioned.NewForConfig(host.Config); err != nil {
		t.Fatal(err)
	}
	// The server is there first: it says what it waits for, and takes up the work when it is registered.
	a.start(t)
	a.waitForLog(t, "run `annex register`, with --user")
	mustAnnex(t, with("register", flags, "--external-name=localhost", "--service-port="+strconv.Itoa(port), "--user="+user)...)
	a.waitAvailable(t)

	claims := a.client.MulticlusterV1alpha1().ClusterClaims()
	events, err := claims.Watch(t.Context(), v1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	leaves, bundles := map[string]bool{}, map[string]bool{}
	deadline := time.Now().Add(2 * patience)
	for i := 0; len(bundles) < 3 || len(leaves) < 5; i++ {
		if time.Now().After(deadline) {
			t.Fatalf("there were %d certificates and %d CA bundles, want 5 and 3", len(leaves), len(bundles))
		}
		leaves[servingSerial(t, port)] = true
		service, err := apiServicesOf(t).Get(t.Context(), "v1alpha1.multicluster.k8s.io", v1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bundles[string(service.Spec.CABundle)] = true

		claim := &v1alpha1.ClusterClaim{ObjectMeta: v1.ObjectMeta{Name: fmt.Sprintf("rotation-%d.example.com", i)}, Spec: v1alpha1.ClusterClaimSpec{Value: "a"}}
		if _, err := claims.Create(t.Context(), claim, v1.CreateOptions{}); err != nil {
			t.Fatalf("after %d certificates and %d CA bundles a request fails: %v", len(leaves), len(bundles), err)
		}
		select {
		case event, open := <-events.ResultChan():
			if !open {
				t.Fatalf("the watch ended after %d certificates and %d CA bundles", len(leaves), len(bundles))
			}
			if got, ok := event.Object.(*v1alpha1.ClusterClaim); !ok || event.Type != watch.Added || got.Name != claim.Name {
				t.Fatalf("the watch tells %s %v, want that %s was added", event.Type, event.Object, claim.Name)
			}
		case <-time.After(patience):
			t.Fatalf("the watch says nothing about %s", claim.Name)
		}
	}
	a.waitAvailable(t)

	// A bundle that someone else has broken is right again.
	broken, _, err := pki.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other.crt")
	if err := os.WriteFile(other, broken, 0o600); err != nil {
		t.Fatal(err)
	}
	mustAnnex(t, with("register", flags, "--external-name=localhost", "--service-port="+strconv.Itoa(port), "--user="+user, "--ca-file="+other)...)
	poll.Eventually(t, patience, "the server repairs the CA bundle", func(ctx context.Context) error {
		service, err := apiServicesOf(t).Get(ctx, "v1alpha1.multicluster.k8s.io", v1.GetOptions{})
		if err == nil && bytes.Equal(service.Spec.CABundle, broken) {
			err = errors.New("it is still the broken one")
		}
		return err
	})
	poll.Eventually(t, patience, "requests reach the server", func(ctx context.Context) error {
		_, err := claims.Get(ctx, "rotation-0.example.com", v1.GetOptions{})
		return err
	})
}

// servingSerial is the serial number of the certificate that the server shows to new clients.
func servingSerial(t *testing.T, port int) string {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the host verifies it; this is about which one it is
	connection, err := dialer.DialContext(t.Context(), "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}
