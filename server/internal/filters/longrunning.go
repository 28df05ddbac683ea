// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// OnStop calls a function when the server begins to stop, unless forget is called before.
type OnStop func(func()) (forget func() bool)

// WithLongRunningTermination ends watches and other long-running requests when the server begins to stop. Those of built-in resources would
// end anyway; requests proxied to an extension server would last until that ends them.
func WithLongRunningTermination(handler http.Handler, isLongRunning request.LongRunningRequestCheck, onStop OnStop) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && isLongRunning(r, info) {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer onStop(cancel)()
			if info.Verb == "watch" {
				defer recoverWatch(ctx)
			}
			r = r.WithContext(ctx)
		}
		handler.ServeHTTP(w, r)
	})
}

// recoverWatch is deferred. The proxy panics with http.ErrAbortHandler when a watch ends, which clients take for a broken connection; it is
// recovered if the server stops or the client is gone.
func recoverWatch(ctx context.Context) {
	aborted := recover()
	if aborted == nil {
		return
	}
	if err, ok := aborted.(error); !ok || !errors.Is(err, http.ErrAbortHandler) || ctx.Err() == nil {
		panic(aborted) //nolint:forbidigo // the panic is not ours; it goes on
	}
}
