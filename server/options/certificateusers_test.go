// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

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

	"github.com/kube-annex/annex/server/pki"
)

// changingCA is authorities that can be exchanged.
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

// signed returns authorities and the certificate that one of them made for the name.
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
		// What callers make of an answer must not reach the next one.
		response.User, response.Audiences = nil, authenticator.Audiences{"changed"}
	}
	if got != want {
		t.Errorf("the user is %q (%v), want %q", got, err, want)
	}
}

func TestUsersAreKnownByTheirCertificates(t *testing.T) {
	t.Parallel()
	trusted, shown := signed(t, "jane")
	others, _ := signed(t, "john")
	users := UserCertificates(trusted)
	for range 3 {
		wantUser(t, users, showing(t, shown, ""), "jane")
	}
	wantUser(t, users, showing(t, nil, ""), "")
	_, foreign := signed(t, "eve")
	for range 2 {
		wantUser(t, users, showing(t, foreign, ""), "")
	}
	// Authorities that have changed hold from the next request on, back and forth.
	was := trusted.pem
	trusted.pem = others.pem
	wantUser(t, users, showing(t, shown, ""), "")
	trusted.pem = was
	wantUser(t, users, showing(t, shown, ""), "jane")
}

func TestProxiesAreKnownByTheirCertificates(t *testing.T) {
	t.Parallel()
	trusted, shown := signed(t, "proxy")
	names := []string{"proxy"}
	proxies := ProxyCertificates(&authenticatorfactory.RequestHeaderConfig{
		CAContentProvider: trusted, AllowedClientNames: headerrequest.StringSliceProviderFunc(func() []string { return names }),
		UsernameHeaders: headerrequest.StaticStringSlice{"X-Remote-User"}, UIDHeaders: headerrequest.StaticStringSlice{},
		GroupHeaders: headerrequest.StaticStringSlice{}, ExtraHeaderPrefixes: headerrequest.StaticStringSlice{},
	})
	wantUser(t, proxies, showing(t, shown, "jane"), "jane")
	wantUser(t, proxies, showing(t, shown, "john"), "john") // the proxy is remembered, not whom it named
	wantUser(t, proxies, showing(t, shown, ""), "")
	r := showing(t, shown, "jane")
	wantUser(t, proxies, r, "jane")
	if r.Header.Get("X-Remote-User") != "" {
		t.Error("the header that names the user is left in the request")
	}
	_, foreign := signed(t, "proxy")
	wantUser(t, proxies, showing(t, foreign, "jane"), "")
	names = []string{"another"}
	wantUser(t, proxies, showing(t, shown, "jane"), "")
	names = []string{"another", "proxy"}
	wantUser(t, proxies, showing(t, shown, "jane"), "jane")
}

func TestWhatIsVerifiedIsRememberedForAMinute(t *testing.T) {
	t.Parallel()
	_, shown := signed(t, "jane")
	for name, tc := range map[string]struct {
		// lasts is how long the certificate itself holds, left what is left of the memory after the time that passes.
		lasts, passes time.Duration
		remembered    bool
	}{
		"at once":                      {lasts: time.Hour, passes: 0, remembered: true},
		"just before the minute":       {lasts: time.Hour, passes: verifiedFor - time.Nanosecond, remembered: true},
		"after the minute":             {lasts: time.Hour, passes: verifiedFor, remembered: false},
		"before the certificate's end": {lasts: time.Second, passes: time.Second - time.Nanosecond, remembered: true},
		"after the certificate's end":  {lasts: time.Second, passes: time.Second, remembered: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			certificate := *shown[0]
			clock := testingclock.NewFakePassiveClock(certificate.NotAfter.Add(-tc.lasts))
			known := newVerified(clock, func() [][]byte { return nil })
			asked := 0
			verify := authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
				asked++
				return &authenticator.Response{}, true, nil
			})
			r := showing(t, []*x509.Certificate{&certificate}, "")
			if _, _, err := known.after(r, verify); err != nil || asked != 1 {
				t.Fatalf("verified %d times (%v), want once", asked, err)
			}
			clock.SetTime(clock.Now().Add(tc.passes))
			if _, ok := known.of(r); ok != tc.remembered {
				t.Errorf("remembered: %t, want %t", ok, tc.remembered)
			}
		})
	}
}

func TestAuthoritiesThatChangeMeanwhileAreAskedAgain(t *testing.T) {
	t.Parallel()
	trusted, shown := signed(t, "jane")
	others, _ := signed(t, "john")
	known := newVerified(testingclock.NewFakePassiveClock(time.Now()), func() [][]byte { return [][]byte{trusted.pem} })
	r := showing(t, shown, "")
	_, _, err := known.after(r, authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		trusted.pem = others.pem // while the certificate is being verified against what was there before
		return &authenticator.Response{}, true, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := known.of(r); ok {
		t.Error("a certificate is taken for verified against authorities that it was not verified against")
	}
}
