// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// answers is a host whose clock stands still.
type answers time.Time

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{Header: http.Header{"Date": {time.Time(a).UTC().Format(http.TimeFormat)}}, Body: http.NoBody}, nil
}

func TestClocksApartAreNoticedOnce(t *testing.T) {
	t.Parallel()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	request, err := http.NewRequestWithContext(klog.NewContext(t.Context(), logger), http.MethodGet, "https://example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	host := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	here := host
	watch := clockWatch{next: answers(host), now: func() time.Time { return here }, apart: &atomic.Bool{}}
	for _, difference := range []time.Duration{0, time.Minute, -time.Hour, -time.Hour, time.Hour, 0, 0} {
		here = host.Add(difference)
		response, err := watch.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if apart, agree := strings.Count(log, "are apart"), strings.Count(log, "agree again"); apart != 1 || agree != 1 {
		t.Errorf("logged %d times that the clocks are apart and %d times that they agree, want once each:\n%s", apart, agree, log)
	}
}
