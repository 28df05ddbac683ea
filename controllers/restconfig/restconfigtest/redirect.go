// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restconfigtest has a server that redirects, for tests of clients with credentials. It is not a stable API.
package restconfigtest

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Redirect starts a server that answers each request with the status code and a redirect to target. A request to target fails the test.
func Redirect(t testing.TB, code int) (url, target string) {
	t.Helper()
	destination := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was redirected with the credentials %q", r.Method, r.URL, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	}))
	t.Cleanup(destination.Close)
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, destination.URL+r.URL.Path, code)
	}))
	t.Cleanup(source.Close)
	return source.URL, destination.URL
}
