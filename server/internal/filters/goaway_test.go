// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

func TestGoAwayInTheSecondHalfOfTheShutdownDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const delay = 10 * time.Second
		stopping := make(chan struct{})
		served := 0
		server := WithGoAwayOnShutdown(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }), stopping, delay)
		check := func(when, want string) {
			t.Helper()
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
			if got := answer.Header().Get("Connection"); got != want {
				t.Errorf("%s: Connection is %q, want %q", when, got, want)
			}
		}
		check("before", "")
		close(stopping)
		check("at first", "")
		<-time.After(delay/2 - time.Second)
		check("in the first half", "")
		<-time.After(time.Second)
		check("in the second half", "close")
		if served != 4 {
			t.Errorf("%d of 4 requests were served", served)
		}
	})
}
