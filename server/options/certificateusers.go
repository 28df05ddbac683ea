// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"bytes"
	stdx509 "crypto/x509"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/request/headerrequest"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// verifiedFor is how long a certificate that was verified is taken for good without looking at its authority's dates again.
	verifiedFor = time.Minute
	// verifiedMost is how many certificates are remembered.
	verifiedMost = 4096
)

// UserCertificates returns who recognizes users by client certificates of the authorities.
//
// Checking a signature is a fifth of what a request costs, and the libraries do it for each. Here a certificate that was verified is
// remembered for a minute, but not beyond its own end, nor after the authorities have changed.
func UserCertificates(authorities dynamiccertificates.CAContentProvider) authenticator.Request {
	verify := x509.NewDynamic(authorities.VerifyOptions, x509.CommonNameUserConversion)
	known := newVerified(clock.RealClock{}, func() [][]byte { return [][]byte{authorities.CurrentCABundleContent()} })
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if response, ok := known.of(r); ok {
			return &response, true, nil
		}
		return known.after(r, verify)
	})
}

// ProxyCertificates returns who recognizes users by what front proxies say of them in headers. Certificates of proxies are remembered
// as those of users are, as long as the names that proxies may have stay the same, too.
func ProxyCertificates(proxies *authenticatorfactory.RequestHeaderConfig) authenticator.Request {
	verify := headerrequest.NewDynamicVerifyOptionsSecure(proxies.CAContentProvider.VerifyOptions, proxies.AllowedClientNames,
		proxies.UsernameHeaders, proxies.UIDHeaders, proxies.GroupHeaders, proxies.ExtraHeaderPrefixes)
	read := headerrequest.NewDynamic(proxies.UsernameHeaders, proxies.UIDHeaders, proxies.GroupHeaders, proxies.ExtraHeaderPrefixes)
	known := newVerified(clock.RealClock{}, func() [][]byte {
		trust := [][]byte{proxies.CAContentProvider.CurrentCABundleContent()}
		for _, name := range proxies.AllowedClientNames.Value() {
			trust = append(trust, []byte(name))
		}
		return trust
	})
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if _, ok := known.of(r); ok {
			return read.AuthenticateRequest(r)
		}
		return known.after(r, verify)
	})
}

// verified remembers certificates that were verified. A certificate is known by where it is in memory, since crypto/tls has one copy of
// those that are in use; and who verified it once has verified its signature, whatever else its owner sends along.
type verified struct {
	clock clock.PassiveClock
	// trust is what made certificates good: authorities and the like.
	trust func() [][]byte
	known *lru.Cache
}

// verdict is what was found about a certificate.
type verdict struct {
	// response is the caller's once it is returned; the user in it is nobody's to change.
	response authenticator.Response
	trust    [][]byte
	until    time.Time
}

func newVerified(clock clock.PassiveClock, trust func() [][]byte) *verified {
	return &verified{clock: clock, trust: trust, known: lru.New(verifiedMost)}
}

// of returns what was found about the certificate of the request, if that still holds.
func (v *verified) of(r *http.Request) (authenticator.Response, bool) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return authenticator.Response{}, false
	}
	found, ok := v.known.Get(r.TLS.PeerCertificates[0])
	if !ok {
		return authenticator.Response{}, false
	}
	last, ok := found.(*verdict)
	if !ok || !v.clock.Now().Before(last.until) || !slices.EqualFunc(last.trust, v.trust(), bytes.Equal) {
		v.known.Remove(r.TLS.PeerCertificates[0])
		return authenticator.Response{}, false
	}
	return last.response, true
}

// after has the request's certificate verified, and remembers it if it is good.
func (v *verified) after(r *http.Request, verify authenticator.Request) (*authenticator.Response, bool, error) {
	// What is trusted may change meanwhile; then the certificate is verified once more.
	trust, now := v.trust(), v.clock.Now()
	response, ok, err := verify.AuthenticateRequest(r)
	if ok && err == nil {
		v.known.Add(r.TLS.PeerCertificates[0], &verdict{response: *response, trust: trust, until: end(now, r.TLS.PeerCertificates)})
	}
	return response, ok, err
}

// end is when the first of the certificates ends, but not long after now.
func end(now time.Time, certificates []*stdx509.Certificate) time.Time {
	until := now.Add(verifiedFor)
	for _, certificate := range certificates {
		if certificate.NotAfter.Before(until) {
			until = certificate.NotAfter
		}
	}
	return until
}
