// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestAbortedWatches has the proxy abort watches, as it does whenever copying ends early. Only those whose client is still there, of a
// server that goes on, are broken.
func TestAbortedWatches(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		clientGoes, serverStops bool
		verb                    string
		panics                  any
		want                    any
	}{
		"the server behind breaks":      {verb: "watch", panics: http.ErrAbortHandler, want: http.ErrAbortHandler},
		"the client goes":               {verb: "watch", panics: http.ErrAbortHandler, clientGoes: true},
		"the server stops":              {verb: "watch", panics: http.ErrAbortHandler, serverStops: true},
		"the client goes, not in vain":  {verb: "watch", panics: "a bug", clientGoes: true, want: "a bug"},
		"something long, and no watch":  {verb: "proxy", panics: http.ErrAbortHandler, clientGoes: true, want: http.ErrAbortHandler},
		"a watch that ends as it ought": {verb: "watch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, leave := context.WithCancel(t.Context())
			defer leave()
			stop := func() {}
			handler := WithLongRunningTermination(
				http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					if tc.clientGoes {
						leave()
					}
					if tc.serverStops {
						stop()
						<-r.Context().Done()
					}
					if tc.panics != nil {
						panic(tc.panics) //nolint:forbidigo // as the proxy does
					}
				}),
				func(*http.Request, *request.RequestInfo) bool { return true },
				func(f func()) func() bool {
					stop = f
					return func() bool { return true }
				})
			defer func() {
				got := recover()
				gotErr, isErr := got.(error)
				wantErr, wantsErr := tc.want.(error)
				if isErr && wantsErr && errors.Is(gotErr, wantErr) || !isErr && !wantsErr && got == tc.want {
					return
				}
				t.Errorf("got %v, want %v", got, tc.want)
			}()
			ctx := request.WithRequestInfo(client, &request.RequestInfo{Verb: tc.verb})
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		})
	}
}
