// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"net/http"
)

var authorizerUnavailable = unavailable{"authorizer"}

// SetAuthorizerUnavailable is called by an authorizer whose host did not answer.
func SetAuthorizerUnavailable(ctx context.Context) { authorizerUnavailable.set(ctx) }

// WithAuthorizerUnavailable answers a request with 503 if its authorizer was unavailable. The generic server answers with a plain 500 that
// contains the host's address.
func WithAuthorizerUnavailable(handler http.Handler) http.Handler {
	return authorizerUnavailable.filter(handler, http.StatusInternalServerError, "the host could not be asked whether this is allowed; try again")
}
