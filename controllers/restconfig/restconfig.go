// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restconfig restricts clients that send credentials to servers of others. It is not a stable API.
package restconfig

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// RedirectError reports an answer that redirects.
type RedirectError struct {
	// Status is the status line of the answer, and Location the address that it names.
	Status, Location string
}

// Error implements error.
func (e *RedirectError) Error() string {
	const shown = 200
	return fmt.Sprintf("the server answers %q with a redirect to %.*q, which is not followed with credentials; name the server that answers itself",
		e.Status, shown, e.Location)
}

// RejectRedirects makes answers that redirect errors of the type RedirectError. http.Client would repeat the request, and the transport
// would add the bearer token or the client certificate again, whatever the scheme and the host.
func RejectRedirects(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &checked{next: next, check: func(response *http.Response) error {
			if response.StatusCode/100 != 3 || response.StatusCode == http.StatusNotModified {
				return nil
			}
			_ = response.Body.Close()
			return &RedirectError{Status: response.Status, Location: response.Header.Get("Location")}
		}}
	})
}

// LimitResponses makes reading more than limit bytes of an answer fail with an http.MaxBytesError.
func LimitResponses(config *rest.Config, limit int64) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &checked{next: next, check: func(response *http.Response) error {
			response.Body = http.MaxBytesReader(nil, response.Body, limit)
			return nil
		}}
	})
}

// checked checks each answer.
type checked struct {
	next  http.RoundTripper
	check func(*http.Response) error
}

// RoundTrip implements http.RoundTripper.
func (c *checked) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if err := c.check(response); err != nil {
		return nil, err
	}
	return response, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper, by which client-go finds the connections.
func (c *checked) WrappedRoundTripper() http.RoundTripper { return c.next }
