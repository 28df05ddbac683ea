// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"net/http"
	"sync"
	"time"
)

// WithGoAwayOnShutdown asks clients for a new connection with each response in the second half of the shutdown delay. Load balancers have
// removed the server by then, but only new connections go elsewhere; open ones would be used until their requests are refused. With HTTP/2
// the response is followed by GOAWAY, and requests in flight on the connection continue.
func WithGoAwayOnShutdown(handler http.Handler, stopping <-chan struct{}, delay time.Duration) http.Handler {
	since := sync.OnceValue(time.Now)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stopping:
			if time.Since(since()) >= delay/2 {
				w.Header().Set("Connection", "close")
			}
		default:
		}
		handler.ServeHTTP(w, r)
	})
}
