// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package providertest is an OpenID Connect provider for tests.
package providertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Provider is an issuer of tokens that serves its keys.
type Provider struct {
	*httptest.Server
	key *ecdsa.PrivateKey
}

// Start serves a new key until the test ends.
func Start(t testing.TB) *Provider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{key: key}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "jwks_uri": p.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	})
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

// Token returns one for jane in the team developers, for the audience annex and an hour, with claims changed, or left out where they are nil.
func (p *Provider) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.key}, (&jose.SignerOptions{}).WithHeader("kid", "one"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"iss": p.URL, "aud": "annex", "sub": "jane", "teams": []string{"developers"}, "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range claims {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	token, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// Configuration is an AuthenticationConfiguration with the providers as issuers, whose names get the prefix "oidc:".
func Configuration(providers ...*Provider) string {
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: [{path: /readyz}]}\njwt:\n"
	for _, p := range providers {
		authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
		text += fmt.Sprintf("- issuer: {url: %q, audiences: [annex], certificateAuthority: %q}\n", p.URL, authority) +
			"  claimMappings: {username: {claim: sub, prefix: \"oidc:\"}, groups: {claim: teams, prefix: \"oidc:\"}}\n"
	}
	return text
}
