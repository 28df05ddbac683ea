// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

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
	// verificationTTL is the time for which a verified certificate is accepted without another verification.
	verificationTTL = time.Minute
	// verificationCacheSize is the number of certificates in the cache.
	verificationCacheSize = 4096
)

// NewClientCertificates returns an authenticator of users by client certificates of the authorities.
//
// Verifying a signature is a fifth of the cost of a request, and the libraries do it for each. This authenticator caches a verified certificate
// for a minute, at most until it expires or the authorities change.
func NewClientCertificates(authorities dynamiccertificates.CAContentProvider) authenticator.Request {
	verify := x509.NewDynamic(authorities.VerifyOptions, x509.CommonNameUserConversion)
	cache := newVerificationCache(clock.RealClock{}, func() [][]byte { return [][]byte{authorities.CurrentCABundleContent()} })
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if response, ok := cache.get(r); ok {
			return &response, true, nil
		}
		return cache.verify(r, verify)
	})
}

// NewFrontProxy returns an authenticator of users by the request headers of front proxies. It caches certificates of proxies as those of
// users, at most until the allowed names change.
func NewFrontProxy(proxies *authenticatorfactory.RequestHeaderConfig) authenticator.Request {
	verify := headerrequest.NewDynamicVerifyOptionsSecure(proxies.CAContentProvider.VerifyOptions, proxies.AllowedClientNames,
		proxies.UsernameHeaders, proxies.UIDHeaders, proxies.GroupHeaders, proxies.ExtraHeaderPrefixes)
	headers := headerrequest.NewDynamic(proxies.UsernameHeaders, proxies.UIDHeaders, proxies.GroupHeaders, proxies.ExtraHeaderPrefixes)
	cache := newVerificationCache(clock.RealClock{}, func() [][]byte {
		trust := [][]byte{proxies.CAContentProvider.CurrentCABundleContent()}
		for _, name := range proxies.AllowedClientNames.Value() {
			trust = append(trust, []byte(name))
		}
		return trust
	})
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		if _, ok := cache.get(r); ok {
			return headers.AuthenticateRequest(r)
		}
		return cache.verify(r, verify)
	})
}

// verificationCache keeps the results of verified certificates. Its keys are pointers, since crypto/tls has one copy of each certificate in
// use. The intermediates of a later connection do not matter: the signature of the certificate itself has been verified.
type verificationCache struct {
	clock clock.PassiveClock
	// trust returns what a verification depends on, such as the authorities.
	trust   func() [][]byte
	results *lru.Cache
}

type verification struct {
	// response is copied for each caller; its user is read-only.
	response authenticator.Response
	trust    [][]byte
	expiry   time.Time
}

func newVerificationCache(clock clock.PassiveClock, trust func() [][]byte) *verificationCache {
	return &verificationCache{clock: clock, trust: trust, results: lru.New(verificationCacheSize)}
}

// get returns the cached response for the certificate of the request, and whether there is a valid one.
func (c *verificationCache) get(r *http.Request) (authenticator.Response, bool) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return authenticator.Response{}, false
	}
	value, ok := c.results.Get(r.TLS.PeerCertificates[0])
	if !ok {
		return authenticator.Response{}, false
	}
	cached, ok := value.(*verification)
	if !ok || !c.clock.Now().Before(cached.expiry) || !slices.EqualFunc(cached.trust, c.trust(), bytes.Equal) {
		c.results.Remove(r.TLS.PeerCertificates[0])
		return authenticator.Response{}, false
	}
	return cached.response, true
}

// verify authenticates the request and caches a positive result.
func (c *verificationCache) verify(r *http.Request, authenticate authenticator.Request) (*authenticator.Response, bool, error) {
	// The trust may change meanwhile; the cached result is invalid then.
	trust, now := c.trust(), c.clock.Now()
	response, ok, err := authenticate.AuthenticateRequest(r)
	if ok && err == nil {
		c.results.Add(r.TLS.PeerCertificates[0], &verification{response: *response, trust: trust, expiry: expiry(now, r.TLS.PeerCertificates)})
	}
	return response, ok, err
}

// expiry returns when the first of the certificates expires, at most verificationTTL after now.
func expiry(now time.Time, certificates []*stdx509.Certificate) time.Time {
	first := now.Add(verificationTTL)
	for _, certificate := range certificates {
		if certificate.NotAfter.Before(first) {
			first = certificate.NotAfter
		}
	}
	return first
}
