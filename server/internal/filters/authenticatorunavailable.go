// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"net/http"

	"k8s.io/apiserver/pkg/authentication/authenticator"
)

var authenticatorUnavailable = unavailable{"authenticator"}

// ReportUnavailable reports errors of the authenticator for which isUnavailable holds to WithAuthenticatorUnavailable.
func ReportUnavailable(authenticate authenticator.Request, isUnavailable func(error) bool) authenticator.Request {
	return authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		response, ok, err := authenticate.AuthenticateRequest(r)
		if isUnavailable(err) {
			authenticatorUnavailable.set(r.Context())
		}
		return response, ok, err
	})
}

// WithAuthenticatorUnavailable answers a request with 503 if its authenticator was unavailable. The generic server answers 401, on which
// clients discard valid credentials.
func WithAuthenticatorUnavailable(handler http.Handler) http.Handler {
	return authenticatorUnavailable.filter(handler, http.StatusUnauthorized, "it could not be found out who calls; try again")
}
