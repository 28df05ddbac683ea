// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controlplane"
)

func readKey(t *testing.T, file string) *ecdsa.PrivateKey {
	t.Helper()
	block, _ := pem.Decode(must[[]byte](t)(os.ReadFile(file)))
	return must[*ecdsa.PrivateKey](t)(x509.ParseECPrivateKey(block.Bytes))
}

// publicHalf returns a file with the public key of a private one.
func publicHalf(t *testing.T, file string) string {
	t.Helper()
	der := must[[]byte](t)(x509.MarshalPKIXPublicKey(&readKey(t, file).PublicKey))
	public := filepath.Join(t.TempDir(), "public.pem")
	if err := os.WriteFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return public
}

// TestOthersCanVerifyTokens goes the way of a third party, which knows nothing but the issuer's documents.
func TestOthersCanVerifyTokens(t *testing.T) {
	t.Parallel()
	older := newKeyFile(t)
	h, _ := startIssuer(t, func(o *controlplane.Options) { o.ServiceAccounts.KeyFiles = []string{publicHalf(t, older)} })
	admin := core(t, h.Admin())
	newAccount(t, admin, "builder")
	token := tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{Audiences: []string{"vault"}})

	code, body := send(t, h.Admin(), http.MethodGet, h.URL+"/.well-known/openid-configuration", "", nil)
	var configuration map[string]any
	if err := json.Unmarshal([]byte(body), &configuration); err != nil || code != http.StatusOK {
		t.Fatalf("got %d %s: %v", code, body, err)
	}
	uri, _ := configuration["jwks_uri"].(string)
	if !strings.HasPrefix(uri, "https://") || !strings.HasSuffix(uri, "/openid/v1/jwks") {
		t.Errorf("the keys are said to be at %q", uri)
	}
	delete(configuration, "jwks_uri")
	want := map[string]any{
		"issuer": issuer, "response_types_supported": []any{"id_token"}, "subject_types_supported": []any{"public"},
		"id_token_signing_alg_values_supported": []any{"ES256"},
	}
	if diff := cmp.Diff(want, configuration); diff != "" {
		t.Errorf("configuration (-want,+got):\n%s", diff)
	}

	_, body = send(t, h.Admin(), http.MethodGet, h.URL+"/openid/v1/jwks", "", nil)
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(body), &keys); err != nil || len(keys.Keys) != 2 {
		t.Fatalf("got the keys %s: %v", body, err)
	}
	for _, key := range keys.Keys {
		if !key.IsPublic() {
			t.Error("a private key is shown to all")
		}
	}
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.Claims
	if err := parsed.Claims(keys, &claims); err != nil {
		t.Fatalf("the token does not verify: %v", err)
	}
	if err := claims.Validate(jwt.Expected{Issuer: issuer, AnyAudience: jwt.Audience{"vault"}}); err != nil {
		t.Error(err)
	}
	for who, tc := range map[string]struct {
		as     *rest.Config
		method string
		want   int
	}{
		"an account":        {h.bearer(tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{})), http.MethodGet, 200},
		"somebody":          {h.As("somebody"), http.MethodGet, 403},
		"nobody":            {h.With(pki.Pair{}), http.MethodGet, 401},
		"an administrator":  {h.Admin(), http.MethodGet, 200},
		"one who writes it": {h.Admin(), http.MethodPost, 405},
	} {
		for _, path := range []string{"/openid/v1/jwks", "/.well-known/openid-configuration"} {
			if code, _ := send(t, tc.as, tc.method, h.URL+path, "", nil); code != tc.want {
				t.Errorf("%s %s as %s: got %d, want %d", tc.method, path, who, code, tc.want)
			}
		}
	}
}

// TestKeysAreReplacedWhileServing goes the way of rotation: the new key is known, then it signs, then the old one goes.
func TestKeysAreReplacedWhileServing(t *testing.T) {
	t.Parallel()
	others := filepath.Join(t.TempDir(), "others.pem")
	replace := func(file string, from ...string) {
		t.Helper()
		var content []byte
		for _, source := range from {
			content = append(content, must[[]byte](t)(os.ReadFile(source))...)
		}
		if err := os.WriteFile(file+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	newer := newKeyFile(t)
	replace(others, publicHalf(t, newer))
	h, signing := startIssuer(t, func(o *controlplane.Options) { o.ServiceAccounts.KeyFiles = []string{others} })
	admin := core(t, h.Admin())
	newAccount(t, admin, "builder")
	before := tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{})
	signedBy := func(token string) string {
		t.Helper()
		return must[*jwt.JSONWebToken](t)(jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})).Headers[0].KeyID
	}

	replace(others, publicHalf(t, signing), publicHalf(t, newer))
	replace(signing, newer)
	var after string
	eventually(t, func() error {
		after = tokenOf(t, admin, "builder", authenticationv1.TokenRequestSpec{})
		if signedBy(after) == signedBy(before) {
			return errStill
		}
		return nil
	})
	h.wantStatus("signed with the new key", after, 200)
	h.wantStatus("signed with the old key", before, 200)

	replace(others, publicHalf(t, newer))
	eventually(t, func() error {
		if h.status(before) != http.StatusUnauthorized {
			return errStill
		}
		return nil
	})
	h.wantStatus("signed with the new key, the old one gone", after, 200)
}

func TestServiceAccountOptionsTellTheFix(t *testing.T) {
	t.Parallel()
	good := newKeyFile(t)
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	if err := os.WriteFile(garbage, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		in   controlplane.ServiceAccounts
		want []string
	}{
		"nothing":             {},
		"all that is needed":  {in: controlplane.ServiceAccounts{Issuers: []string{issuer}, SigningKeyFile: good}},
		"verifying only":      {in: controlplane.ServiceAccounts{Issuers: []string{"somebody"}, KeyFiles: []string{publicHalf(t, good)}}},
		"an issuer, no key":   {in: controlplane.ServiceAccounts{Issuers: []string{issuer}}, want: []string{"set --service-account-signing-key-file"}},
		"a key, no issuer":    {in: controlplane.ServiceAccounts{SigningKeyFile: good}, want: []string{"set --service-account-issuer"}},
		"no such file":        {in: controlplane.ServiceAccounts{Issuers: []string{issuer}, SigningKeyFile: "/nowhere"}, want: []string{"/nowhere: no such file"}},
		"no key to sign with": {in: controlplane.ServiceAccounts{Issuers: []string{issuer}, SigningKeyFile: publicHalf(t, good)}, want: []string{"make one with: openssl"}},
		"no key in a file":    {in: controlplane.ServiceAccounts{Issuers: []string{issuer}, KeyFiles: []string{garbage}}, want: []string{"give public or private keys"}},
		"an empty file name":  {in: controlplane.ServiceAccounts{Issuers: []string{issuer}, KeyFiles: []string{""}}, want: []string{"--service-account-key-file has an empty value"}},
		"empty values": {
			in:   controlplane.ServiceAccounts{Issuers: []string{""}, SigningKeyFile: good, Audiences: []string{""}},
			want: []string{"--service-account-issuer has an empty value", "--api-audiences has an empty value"},
		},
		"an issuer twice":  {in: controlplane.ServiceAccounts{Issuers: []string{issuer, issuer}, SigningKeyFile: good}, want: []string{"is given twice"}},
		"an odd issuer":    {in: controlplane.ServiceAccounts{Issuers: []string{"a b:c"}, SigningKeyFile: good}, want: []string{"give an https URL"}},
		"a short maximum":  {in: controlplane.ServiceAccounts{MaxTokenExpiration: 1}, want: []string{"--service-account-max-token-expiration is 1ns"}},
		"no https":         {in: controlplane.ServiceAccounts{KeysURI: "http://a"}, want: []string{"is no https URL"}},
		"no authorities":   {in: controlplane.ServiceAccounts{RootCAFile: garbage}, want: []string{"--root-ca-file"}},
		"only authorities": {in: controlplane.ServiceAccounts{KeysURI: "https://a/b", MaxTokenExpiration: minTokenMaximum}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range tc.in.Validate() {
				got = append(got, err.Error())
			}
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i, want := range tc.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want %q in it", got[i], want)
				}
			}
		})
	}
}
