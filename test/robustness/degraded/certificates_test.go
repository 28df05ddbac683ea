// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package degraded

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	multiclusterv1alpha1 "github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/standalone"
	"github.com/kube-annex/annex/test/framework"
)

var claims = schema.GroupVersionResource{Group: "multicluster.k8s.io", Version: "v1alpha1", Resource: "clusterclaims"}

// TestCertificatesOutliveThemselves has certificates that last for seconds, in a server that runs for longer. Whoever looks into the
// kubeconfig finds good ones at any time, watches of before go on, and controllers lead without a break.
func TestCertificatesOutliveThemselves(t *testing.T) {
	t.Parallel()
	const lifetime = 12 * time.Second
	a := start(t, func(o *standalone.Options) { o.Lifetimes.Leaf = lifetime })
	first := a.connect()
	end := notAfter(t, first)
	allowJane(t, first)
	watches := map[string]watch.Interface{}
	for name, resource := range map[string]schema.GroupVersionResource{
		"the control plane": {Version: "v1", Resource: "configmaps"}, "the extension": claims,
	} {
		w, err := first.dynamic.Resource(resource).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		watches[name] = w
	}
	term := leader(t, first)

	for round := 0; !time.Now().After(end.Add(time.Second)); round++ {
		connected, now := time.Now(), a.connect()
		name := fmt.Sprintf("round-%d", round)
		// A machine that is so slow that a good certificate expires before it is used says nothing.
		wanted := func(err error) {
			t.Helper()
			if err != nil && time.Since(connected) < lifetime/6 {
				t.Fatal(err)
			}
		}
		wanted(now.configMap(t, name))
		// The extension apiserver is told who calls by the host, and asks the host whether Jane may.
		jane := rest.CopyConfig(now.config)
		jane.Impersonate = rest.ImpersonationConfig{UserName: "jane"}
		wanted(clientsFor(t, jane).claim(t, name+".example.com"))
		<-time.After(100 * time.Millisecond)
	}
	const why = `the client certificate of "annex-admin" expired at`
	refused(t, "the certificate of the start", first.configMap(t, "late"), http.StatusUnauthorized, why, "get a new one")
	refused(t, "the certificate of the start, at the extension", first.claim(t, "late.example.com"), http.StatusUnauthorized, why, "get a new one")
	framework.Eventually(t, patience, func() error { return a.connect().configMap(t, "last") })
	framework.Eventually(t, patience, func() error { return a.connect().claim(t, "last.example.com") })
	for name, w := range watches {
		if err := sees(w, "last", "last.example.com"); err != nil {
			t.Errorf("the watch of %s: %v", name, err)
		}
	}
	now := a.connect()
	if got := leader(t, now); got != term {
		t.Errorf("the controllers' term is %s, want %s", got, term)
	}
	wantControllers(t, &annex{t: t, clients: now}, "after")
	a.stop()
}

func notAfter(t *testing.T, c *clients) time.Time {
	t.Helper()
	block, _ := pem.Decode(c.config.CertData)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate.NotAfter
}

// claim creates one through the aggregator.
func (c *clients) claim(t *testing.T, name string) error {
	t.Helper()
	claim := &multiclusterv1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: multiclusterv1alpha1.ClusterClaimSpec{Value: "value"}}
	_, err := c.annexKinds.MulticlusterV1alpha1().ClusterClaims().Create(t.Context(), claim, metav1.CreateOptions{})
	return err
}

func allowJane(t *testing.T, c *clients) {
	t.Helper()
	_, err := c.kubernetes.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// leader tells the terms of all controllers that lead.
func leader(t *testing.T, c *clients) string {
	t.Helper()
	var terms string
	for _, lease := range [][2]string{{"kube-system", "annex-controlplane"}, {"annex-system", "annex-observer"}} {
		framework.Eventually(t, patience, func() error {
			found, err := c.kubernetes.CoordinationV1().Leases(lease[0]).Get(t.Context(), lease[1], metav1.GetOptions{})
			if err != nil {
				return err
			}
			if found.Spec.HolderIdentity == nil || *found.Spec.HolderIdentity == "" || found.Spec.LeaseTransitions == nil {
				return fmt.Errorf("nobody has Lease %s", lease[1])
			}
			terms += fmt.Sprintf("%s %s %d; ", lease[1], *found.Spec.HolderIdentity, *found.Spec.LeaseTransitions)
			return nil
		})
	}
	return terms
}

// sees waits for an object of one of the names.
func sees(w watch.Interface, names ...string) error {
	deadline := time.After(patience)
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return fmt.Errorf("it has ended")
			}
			object, ok := event.Object.(metav1.Object)
			if !ok {
				return fmt.Errorf("got %v", event)
			}
			for _, name := range names {
				if object.GetName() == name {
					return nil
				}
			}
		case <-deadline:
			return fmt.Errorf("it has not seen %v", names)
		}
	}
}

// refusedCredentials have dates that do not fit. Callers learn which, from the control plane as from the extension apiserver.
func refusedCredentials(t *testing.T, a *annex) {
	now := time.Now()
	issue := func(name string, lifetimes pki.Lifetimes) *rest.Config {
		directory, err := pki.OpenFor(filepath.Join(a.dir, "pki"), lifetimes)
		if err != nil {
			t.Fatal(err)
		}
		authority, err := directory.Authority("client-ca", "")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := authority.Client(name, "jane")
		if err != nil {
			t.Fatal(err)
		}
		return &rest.Config{Host: a.config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: a.config.CAData, CertFile: pair.CertFile, KeyFile: pair.KeyFile}}
	}
	expired, tomorrow, good := pki.NewLifetimes(), pki.NewLifetimes(), pki.NewLifetimes()
	expired.Leaf = -time.Minute
	tomorrow.Clock = clocktesting.NewFakeClock(now.Add(24 * time.Hour))
	token := func(claims string) *rest.Config {
		return &rest.Config{
			Host: a.config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: a.config.CAData},
			BearerToken: "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".e30",
		}
	}
	allowJane(t, a.clients)
	for name, tc := range map[string]struct {
		config *rest.Config
		want   []string
	}{
		"certificate of before":    {issue("jane-expired", expired), []string{`the client certificate of "jane" expired at`, "get a new one"}},
		"certificate of tomorrow":  {issue("jane-tomorrow", tomorrow), []string{`the client certificate of "jane" is not valid before`, "set the clock of who issued it"}},
		"token of before":          {token(fmt.Sprintf(`{"exp":%d}`, now.Add(-time.Minute).Unix())), []string{"the token expired at", "get a new one"}},
		"token of tomorrow":        {token(fmt.Sprintf(`{"nbf":%d}`, now.Add(24*time.Hour).Unix())), []string{"the token is not valid before", "set the clock of who issued it"}},
		"token issued in a minute": {token(fmt.Sprintf(`{"iat":%d}`, now.Add(time.Hour).Unix())), []string{"the token is not valid before"}},
	} {
		c := clientsFor(t, tc.config)
		refused(t, name, c.configMap(t, "credentials"), http.StatusUnauthorized, tc.want...)
		refused(t, name+", through the aggregator", c.claim(t, "credentials.example.com"), http.StatusUnauthorized, tc.want...)
		extension := rest.CopyConfig(tc.config)
		extension.Host, extension.TLSClientConfig.CAData = "https://"+a.extension, a.read("pki", "serving-ca.crt")
		refused(t, name+", at the extension", clientsFor(t, extension).claim(t, "credentials.example.com"), http.StatusUnauthorized, tc.want...)
	}
	a.want(t, "/api/v1/namespaces/default/configmaps/credentials", http.StatusNotFound)
	jane := clientsFor(t, issue("jane-good", good))
	if err := jane.configMap(t, "credentials"); err != nil {
		t.Error(err)
	}
}
