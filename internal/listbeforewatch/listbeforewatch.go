// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package listbeforewatch makes client-go's reflectors and informers list before they watch.
//
// By default they ask for a streamed list, a watch with sendInitialEvents. If the server is away, the reflector then sleeps for up to a
// minute without checking its context (Reflector.watchList). That is longer than a leadership term, or a process, gets to stop.
//
// The feature gate WatchListClient of client-go would do the same. It is one for the process, which belongs to the program that embeds
// this code, and without it the packages that others import would still be slow to stop.
package listbeforewatch

import (
	"net/http"

	"k8s.io/client-go/tools/cache"
)

// Transport is for rest.Config.Wrap. It answers requests for streamed lists as a server does that has none; reflectors then list at once.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next: next} }

type transport struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("sendInitialEvents") != "true" {
		return t.next.RoundTrip(request)
	}
	if request.Body != nil {
		_ = request.Body.Close()
	}
	const status = http.StatusUnprocessableEntity
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: request,
	}, nil
}

// WrappedRoundTripper implements net.RoundTripperWrapper, by which client-go finds the connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// ListWatch is for sources that have no client, or the client of a caller.
type ListWatch struct {
	*cache.ListWatch
}

// IsWatchListSemanticsUnSupported is called by reflectors.
func (ListWatch) IsWatchListSemanticsUnSupported() bool { return true }
