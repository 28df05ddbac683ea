// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/fake"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/internal/options"
)

const apiServiceName = "v1alpha1.example.com"

// host is a cluster in which the server is registered.
type host struct {
	kubernetes    *fake.Clientset
	registrations *apiregistration.Clientset
}

func newHost(objects ...runtime.Object) *host {
	service := options.NewService()
	h := &host{
		kubernetes: fake.NewClientset(objects...),
		registrations: apiregistration.NewSimpleClientset(&apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: apiServiceName},
			Spec:       apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{Namespace: service.Namespace, Name: service.Name}},
		}),
	}
	// The fake accepts updates of what was read before someone else's update; no host does.
	var mu sync.Mutex
	h.kubernetes.PrependReactor("update", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		next := action.(clienttesting.UpdateAction).GetObject().(*corev1.Secret).DeepCopy()
		current, err := h.kubernetes.Tracker().Get(action.GetResource(), next.Namespace, next.Name)
		if err != nil {
			return true, nil, err
		}
		version := current.(*corev1.Secret).ResourceVersion
		if next.ResourceVersion != version {
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), next.Name, errors.New("it has changed"))
		}
		next.ResourceVersion = version + "1"
		return true, next, h.kubernetes.Tracker().Update(action.GetResource(), next, next.Namespace)
	})
	return h
}

func (h *host) apiService(t *testing.T) *apiregistrationv1.APIService {
	t.Helper()
	service, err := h.registrations.ApiregistrationV1().APIServices().Get(t.Context(), apiServiceName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// certificate returns a replica's.
func (h *host) certificate(t *testing.T, o Options) *Certificate {
	t.Helper()
	c, err := New(o, options.NewService(), &rest.Config{}, []string{apiServiceName})
	if err != nil {
		t.Fatal(err)
	}
	c.publisher.client = h.registrations.ApiregistrationV1()
	if o.Directory == "" {
		c.store = &secretStore{client: h.kubernetes.CoreV1(), service: options.NewService()}
	}
	return c
}

func emptySecret() *corev1.Secret {
	service := options.NewService()
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.AuthoritySecret(), Labels: map[string]string{"a": "b"}}}
}

func leafOf(t *testing.T, c *Certificate) *x509.Certificate {
	t.Helper()
	certPEM, keyPEM := c.CurrentCertKeyContent()
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

// verified tells whether the host would believe the certificate.
func verified(bundle []byte, leaf *x509.Certificate) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	service := options.NewService()
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: service.DNSName()})
	return err
}

func authoritiesIn(bundle []byte) map[string]bool {
	found := map[string]bool{}
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		found[string(block.Bytes)] = true
	}
	return found
}

// TestReplicasRotateWithoutAGap checks, at each moment of several renewals, that the host believes both replicas.
func TestReplicasRotateWithoutAGap(t *testing.T) {
	t.Parallel()
	h := newHost(emptySecret())
	o := Options{Lifetime: 2 * time.Second, AuthorityLifetime: 6 * time.Second}
	replicas := []*Certificate{h.certificate(t, o), h.certificate(t, o)}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, replica := range replicas {
		running.Go(func() { replica.Run(ctx) })
	}
	leaves, authorities, both := map[string]bool{}, map[string]bool{}, false
	deadline := time.Now().Add(time.Minute)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for len(authorities) < 3 || len(leaves) < 8 {
		if time.Now().After(deadline) {
			t.Fatalf("%d certificates by %d authorities within a minute", len(leaves), len(authorities))
		}
		<-ticker.C
		for _, replica := range replicas {
			if replica.Check(nil) != nil {
				if len(leaves) > 1 {
					t.Fatalf("no longer ready: %v", replica.Check(nil))
				}
				continue
			}
			leaf := leafOf(t, replica)
			bundle := h.apiService(t).Spec.CABundle
			if bundle == nil {
				continue
			}
			if err := verified(bundle, leaf); err != nil {
				t.Fatalf("after %d certificates the host does not believe the next: %v", len(leaves), err)
			}
			leaves[string(leaf.Raw)] = true
			for authority := range authoritiesIn(bundle) {
				authorities[authority] = true
			}
			both = both || len(authoritiesIn(bundle)) > 1
		}
	}
	if !both {
		t.Error("no bundle had the old and the new authority")
	}
	secret, err := h.kubernetes.CoreV1().Secrets("annex-system").Get(t.Context(), "annex-apiserver-ca", metav1.GetOptions{})
	if err != nil || secret.Labels["a"] != "b" {
		t.Errorf("the Secret is %v (%v), want it with the labels that it had", secret, err)
	}
}

func TestAuthoritiesInADirectoryOutliveTheProcess(t *testing.T) {
	t.Parallel()
	h := newHost()
	o := NewOptions()
	o.Directory = filepath.Join(t.TempDir(), "pki")
	h.certificate(t, o).pass(t.Context())
	first := h.apiService(t).Spec.CABundle
	second := h.certificate(t, o)
	second.pass(t.Context())
	if diff := cmp.Diff(string(first), string(h.apiService(t).Spec.CABundle)); diff != "" {
		t.Errorf("CA bundle after a restart (-want,+got):\n%s", diff)
	}
	if err := verified(first, leafOf(t, second)); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(o.Directory, "serving-authorities.pem"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the authorities are in %v (%v), want a file for the owner only", info, err)
	}
}

// TestProblems checks that a server says what is wrong, is ready only when it can be believed, and repairs what it may.
func TestProblems(t *testing.T) {
	t.Parallel()
	forbidden := func(resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "x", errors.New("no rights"))
	}
	garbage := emptySecret()
	garbage.Data = map[string][]byte{"ca.crt": selfSigned(t), "ca.key": nil}
	for name, tc := range map[string]struct {
		host func() *host
		// want is in the problem; empty for none.
		want  string
		ready bool
	}{
		"all is well": {host: func() *host { return newHost(emptySecret()) }, ready: true},
		"the Secret may not be read": {host: func() *host {
			h := newHost(emptySecret())
			h.kubernetes.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden("secrets") })
			return h
		}, want: "run `annex register`, with --user"},
		"there is no Secret": {host: func() *host {
			h := newHost()
			h.kubernetes.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden("secrets") })
			return h
		}, want: "there is no Secret annex-system/annex-apiserver-ca"},
		"the Secret is damaged": {host: func() *host { return newHost(garbage) }, want: "there are 1 certificates and 0 keys; restore them from a backup, or delete"},
		"the bundle may not be written": {host: func() *host {
			h := newHost(emptySecret())
			h.registrations.PrependReactor("patch", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden("apiservices") })
			return h
		}, want: "write the CA bundle into APIService v1alpha1.example.com: ", ready: true},
		"the APIService is another server's": {host: func() *host {
			h := newHost(emptySecret())
			h.registrations = apiregistration.NewSimpleClientset(&apiregistrationv1.APIService{ObjectMeta: metav1.ObjectMeta{Name: apiServiceName}})
			return h
		}, want: "it is not served by service annex-system/annex-apiserver, and was left alone", ready: true},
		"another bundle is there": {host: func() *host {
			h := newHost(emptySecret())
			service := h.apiServiceObject()
			service.Spec.CABundle = selfSigned(t)
			h.registrations = apiregistration.NewSimpleClientset(service)
			return h
		}, ready: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := tc.host()
			c := h.certificate(t, NewOptions())
			// A certificate without a problem is checked after the full interval.
			if wait := c.pass(t.Context()); (wait == c.options.interval()) != (tc.want == "") {
				t.Errorf("it looks again in %s", wait)
			}
			if err := c.Check(nil); tc.ready != (err == nil) {
				t.Errorf("readiness is %v, want ready: %t", err, tc.ready)
			}
			if got := c.problem; tc.want == "" && got != nil || tc.want != "" && (got == nil || !strings.Contains(got.Error(), tc.want)) {
				t.Errorf("the problem is %v, want %q", got, tc.want)
			}
			if tc.want == "" {
				if err := verified(h.apiService(t).Spec.CABundle, leafOf(t, c)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestCertificatesAreRenewedWhileTheHostIsAway has the host go away after the authorities were read, and the certificate age.
func TestCertificatesAreRenewedWhileTheHostIsAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// left is how long the certificate and its authority are still valid.
		left, authority time.Duration
		renewed         bool
	}{
		"in the last third":            {left: 9 * day, authority: 200 * day, renewed: true},
		"expired":                      {left: -time.Minute, authority: 200 * day, renewed: true},
		"before that":                  {left: 11 * day, authority: 200 * day},
		"the authority is in its last": {left: 9 * day, authority: 9*day + 12*time.Hour, renewed: true},
		"the authority has expired":    {left: -time.Minute, authority: -time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(emptySecret())
			o := NewOptions()
			signer, err := pki.NewSigner("annex-serving-ca", tc.authority)
			if err != nil {
				t.Fatal(err)
			}
			c := h.certificate(t, o)
			c.pass(t.Context())
			away := errors.New("connection refused")
			h.kubernetes.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
			h.registrations.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, away })
			c.signers = []*pki.Signer{signer}
			c.current.signer, c.current.notAfter = signer, time.Now().Add(tc.left)
			c.current.issued = c.current.notAfter.Add(-o.Lifetime)
			before := leafOf(t, c)
			c.pass(t.Context())
			leaf := leafOf(t, c)
			if renewed := !leaf.Equal(before); renewed != tc.renewed {
				t.Fatalf("renewed: %t, want %t", renewed, tc.renewed)
			}
			if ready := c.Check(nil) == nil; ready != (tc.renewed || tc.left > 0) {
				t.Errorf("ready: %t with a certificate until %s", ready, c.current.notAfter)
			}
			if !errors.Is(c.problem, away) {
				t.Errorf("the problem is %v, want %v", c.problem, away)
			}
			bundle, _ := pki.EncodeSigners([]*pki.Signer{signer})
			if err := verified(bundle, leaf); tc.renewed && err != nil {
				t.Errorf("a host that knows the authority does not believe the certificate: %v", err)
			}
		})
	}
}

// TestAPublishedSuccessorIsUsedWhileTheHostIsAway and one that the host was not given is not.
func TestAPublishedSuccessorIsUsedWhileTheHostIsAway(t *testing.T) {
	t.Parallel()
	for name, published := range map[string]bool{"published": true, "not published": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(emptySecret())
			c := h.certificate(t, NewOptions())
			c.pass(t.Context())
			first := c.current.signer
			next, err := pki.NewSigner("annex-serving-ca", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			h.kubernetes.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("connection refused")
			})
			c.signers, c.published = []*pki.Signer{next, first}, published
			c.options.AuthorityLifetime = time.Nanosecond // has settled at once
			c.pass(t.Context())
			want := first
			if published {
				want = next
			}
			if !c.current.signer.Equal(want) {
				t.Errorf("the successor signs: %t, want %t", c.current.signer.Equal(next), published)
			}
		})
	}
}

// TestWhichAuthoritySigns names the moment at which a successor takes over.
func TestWhichAuthoritySigns(t *testing.T) {
	t.Parallel()
	signer := func(validity time.Duration) *pki.Signer {
		made, err := pki.NewSigner("annex-serving-ca", validity)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	o := Options{Lifetime: time.Hour, AuthorityLifetime: 10 * time.Hour} // settles in a minute
	next, first, ending := signer(o.AuthorityLifetime), signer(3*time.Hour), signer(50*time.Minute)
	for name, tc := range map[string]struct {
		signers   []*pki.Signer
		after     time.Duration
		published bool
		want      *pki.Signer
	}{
		"the only one":          {signers: []*pki.Signer{next}, want: next},
		"just published":        {signers: []*pki.Signer{next, first}, published: true, want: first},
		"before it has settled": {signers: []*pki.Signer{next, first}, after: time.Minute - time.Second, published: true, want: first},
		"settled":               {signers: []*pki.Signer{next, first}, after: time.Minute, published: true, want: next},
		"never published":       {signers: []*pki.Signer{next, first}, after: time.Hour, want: first},
		"never published, and the predecessor is ending": {signers: []*pki.Signer{next, ending}, want: next},
		"the newest of two that have settled":            {signers: []*pki.Signer{next, first, ending}, after: time.Minute, published: true, want: next},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := choose(tc.signers, tc.signers[0].Made().Add(tc.after), o, tc.published); !got.Equal(tc.want) {
				t.Errorf("got the authority until %s, want the one until %s", got.NotAfter(), tc.want.NotAfter())
			}
		})
	}
}

// TestAnotherReplicaIsFaster checks that two replicas that both make an authority end with one.
func TestAnotherReplicaIsFaster(t *testing.T) {
	t.Parallel()
	h := newHost(emptySecret())
	c := h.certificate(t, NewOptions())
	h.kubernetes.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "x", errors.New("changed"))
	})
	c.pass(t.Context())
	if h.apiService(t).Spec.CABundle != nil {
		t.Error("an authority that was not kept is in the CA bundle")
	}
	if c.Check(nil) == nil {
		t.Error("ready without an authority")
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"defaults":               {NewOptions(), ""},
		"no time":                {Options{Lifetime: time.Millisecond, AuthorityLifetime: time.Hour}, "--serving-cert-lifetime 1ms is too short; give at least 1s"},
		"authority ends earlier": {Options{Lifetime: time.Hour, AuthorityLifetime: time.Hour}, "--serving-ca-lifetime 1h0m0s is too short; give at least twice --serving-cert-lifetime, 2h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := errors.Join(tc.options.Validate()...); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want,+got):\n%s", diff)
			}
		})
	}
}

func (h *host) apiServiceObject() *apiregistrationv1.APIService {
	service, err := h.registrations.ApiregistrationV1().APIServices().Get(context.Background(), apiServiceName, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return service
}

func selfSigned(t *testing.T) []byte {
	t.Helper()
	certPEM, _, err := pki.SelfSigned("localhost")
	if err != nil {
		t.Fatal(err)
	}
	return certPEM
}
