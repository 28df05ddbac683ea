// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// changingCA is a CA bundle that tests replace.
type changingCA struct {
	pem []byte
}

func (c *changingCA) CurrentCABundleContent() []byte { return c.pem }

func (c *changingCA) Name() string { return "changing" }

func (c *changingCA) AddListener(dynamiccertificates.Listener) {}

func (c *changingCA) VerifyOptions() (x509.VerifyOptions, bool) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.pem)
	return x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// signed returns a new authority and a client certificate that it has issued to the name.
func signed(t *testing.T, name string) (*changingCA, []*x509.Certificate) {
	t.Helper()
	directory, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	authority, err := directory.Authority("ca", "authority")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Client("client", name, "developers")
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(authority.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	shown, err := cert.CertsFromFile(pair.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	return &changingCA{pem: ca}, shown
}

func showing(t *testing.T, certificates []*x509.Certificate, user string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: certificates}
	if user != "" {
		r.Header.Set("X-Remote-User", user)
	}
	return r
}

func wantUser(t *testing.T, from authenticator.Request, r *http.Request, want string) {
	t.Helper()
	response, ok, err := from.AuthenticateRequest(r)
	got := ""
	if ok && err == nil {
		got = response.User.GetName()
		// A change of the response must not reach the next caller.
		response.User, response.Audiences = nil, authenticator.Audiences{"changed"}
	}
	if got != want {
		t.Errorf("the user is %q (%v), want %q", got, err, want)
	}
}

func TestClientCertificateAuthentication(t *testing.T) {
	t.Parallel()
	trusted, shown := signed(t, "jane")
	others, _ := signed(t, "john")
	users := NewClientCertificates(trusted)
	for range 3 {
		wantUser(t, users, showing(t, shown, ""), "jane")
	}
	wantUser(t, users, showing(t, nil, ""), "")
	_, foreign := signed(t, "eve")
	for range 2 {
		wantUser(t, users, showing(t, foreign, ""), "")
	}
	// A change of the authorities takes effect with the next request.
	was := trusted.pem
	trusted.pem = others.pem
	wantUser(t, users, showing(t, shown, ""), "")
	trusted.pem = was
	wantUser(t, users, showing(t, shown, ""), "jane")
}

func TestFrontProxyAuthentication(t *testing.T) {
	t.Parallel()
	trusted, shown := signed(t, "proxy")
	names := []string{"proxy"}
	proxies := NewFrontProxy(&authenticatorfactory.RequestHeaderConfig{
		CAContentProvider: trusted, AllowedClientNames: headerrequest.StringSliceProviderFunc(func() []string { return names }),
		UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User"}, UIDHeaders: headerrequest.StaticStringSlice{},
		GroupHeaders: headerrequest.StaticStringSlice{}, ExtraHeaderPrefixes: headerrequest.StaticStringSlice{},
	})
	wantUser(t, proxies, showing(t, shown, "jane"), "jane")
	wantUser(t, proxies, showing(t, shown, "john"), "john") // the verified proxy is cached, not the user
	wantUser(t, proxies, showing(t, shown, ""), "")
	r := showing(t, shown, "jane")
	wantUser(t, proxies, r, "jane")
	if r.Header.Get("X-Remote-User") != "" {
		t.Error("the request still has the header with the user")
	}
	_, foreign := signed(t, "proxy")
	wantUser(t, proxies, showing(t, foreign, "jane"), "")
	names = []string{"another"}
	wantUser(t, proxies, showing(t, shown, "jane"), "")
	names = []string{"another", "proxy"}
	wantUser(t, proxies, showing(t, shown, "jane"), "jane")
}

func TestVerifiedCertificatesAreCachedForAMinute(t *testing.T) {
	t.Parallel()
	_, shown := signed(t, "jane")
	for name, tc := range map[string]struct {
		// lasts is the remaining lifetime of the certificate, passes the time between verification and get.
		lasts, passes time.Duration
		cached        bool
	}{
		"at once":                      {lasts: time.Hour, passes: 0, cached: true},
		"just before the minute":       {lasts: time.Hour, passes: verificationTTL - time.Nanosecond, cached: true},
		"after the minute":             {lasts: time.Hour, passes: verificationTTL, cached: false},
		"before the certificate's end": {lasts: time.Second, passes: time.Second - time.Nanosecond, cached: true},
		"after the certificate's end":  {lasts: time.Second, passes: time.Second, cached: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate := *shown[0]
			clock := testingclock.NewFakePassiveClock(certificate.NotAfter.Add(-tc.lasts))
			cache := newVerificationCache(clock, func() [][]byte { return nil })
			calls := 0
			verify := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				calls++
				return &authenticator.Response{}, true, nil
			})
			r := showing(t, []*x509.Certificate{&certificate}, "")
			if _, _, err := cache.verify(r, verify); err != nil || calls != 1 {
				t.Fatalf("verified %d times (%v), want once", calls, err)
			}
			clock.SetTime(clock.Now().Add(tc.passes))
			if _, ok := cache.get(r); ok != tc.cached {
				t.Errorf("cached: %t, want %t", ok, tc.cached)
			}
		})
	}
}

func TestAuthoritiesThatChangeDuringVerificationInvalidateIt(t *testing.T) {
	t.Parallel()
	trusted, shown := signed(t, "jane")
	others, _ := signed(t, "john")
	cache := newVerificationCache(testingclock.NewFakePassiveClock(time.Now()), func() [][]byte { return [][]byte{trusted.pem} })
	r := showing(t, shown, "")
	_, _, err := cache.verify(r, authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		trusted.pem = others.pem // during the verification against the former authorities
		return &authenticator.Response{}, true, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := cache.get(r); ok {
		t.Error("a verification against former authorities was cached for the new ones")
	}
}
