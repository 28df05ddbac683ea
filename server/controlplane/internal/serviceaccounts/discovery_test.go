// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccounts

import (
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/server/mux"
)

// serving returns the discovery of tokens whose first issuer is the given one.
func serving(t *testing.T, w *world, issuer string) http.Handler {
	t.Helper()
	w.config.Issuers = []string{issuer}
	paths := mux.NewPathRecorderMux("test")
	w.ServeDiscovery(paths, "https://keys.example.com"+KeysPath)
	return paths
}

func ask(handler http.Handler, method, path string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
	return recorder
}

func TestIssuersThatOthersCanFind(t *testing.T) {
	t.Parallel()
	file := keyFile(t, newKey(t, elliptic.P256()))
	for issuer, want := range map[string]int{
		"https://a.example.com":      http.StatusOK,
		"https://a.example.com/b":    http.StatusOK,
		"http://a.example.com":       http.StatusNotFound,
		"kubernetes":                 http.StatusNotFound,
		"https:///path":              http.StatusNotFound,
		"https://a.example.com?b=c":  http.StatusNotFound,
		"https://a.example.com#b":    http.StatusNotFound,
		"https://a.example.com:port": http.StatusNotFound,
	} {
		handler := serving(t, newWorld(t, file), issuer)
		for _, path := range []string{ConfigurationPath, KeysPath} {
			if got := ask(handler, http.MethodGet, path).Code; got != want {
				t.Errorf("issuer %s: %s answers %d, want %d", issuer, path, got, want)
			}
		}
	}
}

func TestMethodsOfDiscovery(t *testing.T) {
	t.Parallel()
	handler := serving(t, newWorld(t, keyFile(t, newKey(t, elliptic.P256()))), "https://a")
	for method, want := range map[string]int{
		http.MethodGet: http.StatusOK, http.MethodHead: http.StatusOK, http.MethodPost: http.StatusMethodNotAllowed, http.MethodDelete: http.StatusMethodNotAllowed,
	} {
		if got := ask(handler, method, KeysPath).Code; got != want {
			t.Errorf("%s answers %d, want %d", method, got, want)
		}
	}
}

// TestOthersVerifyTokensByTheServedKeys reads both documents as another server does.
func TestOthersVerifyTokensByTheServedKeys(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, keyFile(t, newKey(t, elliptic.P256())), keyFile(t, rsaKey), keyFile(t, newKey(t, elliptic.P256())))
	token := w.issue(t)
	handler := serving(t, w, "https://a")
	var got configuration
	answer := ask(handler, http.MethodGet, ConfigurationPath)
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := configuration{
		Issuer: "https://a", KeysURI: "https://keys.example.com" + KeysPath, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"},
		Algorithms: []string{"ES256", "RS256"},
	}
	if diff := cmp.Diff(want, got); diff != "" || answer.Header().Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("Cache-Control %q, configuration (-want,+got):\n%s", answer.Header().Get("Cache-Control"), diff)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(ask(handler, http.MethodGet, KeysPath).Body.Bytes(), &set); err != nil {
		t.Fatal(err)
	}
	parsed, err := jwt.ParseSigned(token, algorithms())
	if err != nil {
		t.Fatal(err)
	}
	var c claims
	if err := parsed.Claims(set, &c); err != nil || len(set.Keys) != 3 || c.Issuer != "https://a" {
		t.Errorf("with %d keys a token says %+v, %v", len(set.Keys), c, err)
	}
}
