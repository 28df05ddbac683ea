// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
)

// TestAnAPIWithoutGatesIsNoError has a page that nobody named. That of a component that somebody named is an error without gates.
func TestAnAPIWithoutGatesIsNoError(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		implied bool
		code    int
		want    string
	}{
		"the API":            {true, http.StatusOK, "INFO The API tells of no feature gates"},
		"a component":        {false, http.StatusOK, "ERROR Cannot read a component's feature gates"},
		"the API, forbidden": {true, http.StatusForbidden, "ERROR Cannot read a component's feature gates"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(tc.code) }))
			defer server.Close()
			logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
			s := &source{component: apiServer, implied: tc.implied, client: server.Client(), url: server.URL}
			for range 2 {
				if err := s.read(klog.NewContext(t.Context(), logger)); err == nil {
					t.Error("there is an answer")
				}
			}
			if log := logger.GetSink().(ktesting.Underlier).GetBuffer().String(); strings.Count(log, tc.want) != 1 || strings.Count(log, "\n") != 1 {
				t.Errorf("want %q once, got:\n%s", tc.want, log)
			}
		})
	}
}
