// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	wire "github.com/kube-annex/annex/apis/fencing"
	"github.com/kube-annex/annex/server/internal/filters/fencing"
)

// TestWhenTheHostDoesNotTell has writes refused that may be late, and not as if they were.
func TestWhenTheHostDoesNotTell(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int // of the host's answer; 0 means that it is away
		want   string
	}{
		"host away":             {0, "connection refused"},
		"host in trouble":       {http.StatusInternalServerError, "whether the term of Lease a/leader held by one goes on is not known, so the write was refused"},
		"no right to get":       {http.StatusForbidden, "give the server the right to get leases, as `annex register` does"},
		"not known to the host": {http.StatusUnauthorized, "give the server the right to get leases, as `annex register` does"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/apis/coordination.k8s.io/v1/namespaces/a/leases/leader" || r.URL.RawQuery != "" {
					t.Errorf("the host is asked for %s, want a quorum read of the Lease", r.URL)
				}
				http.Error(w, "trouble", tc.status)
			}))
			defer host.Close()
			if tc.status == 0 {
				host.Close()
			}
			w := startWorld(t, "unused", func(_ *rest.Config, metrics *fencing.Metrics) fencing.Check {
				return askHost(t)(&rest.Config{Host: host.URL}, metrics)
			})
			_, err := w.as("a/leader;uid;1;one").Create(t.Context(), balloon("node", "1"), metav1.CreateOptions{})
			if !apierrors.IsServiceUnavailable(err) || wire.IsTermOver(err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want 503 with %q", err, tc.want)
			}
			if _, err := w.as().Create(t.Context(), balloon("node", "1"), metav1.CreateOptions{}); err != nil {
				t.Errorf("a write without a term: %v", err)
			}
			if got := w.refused(); got != 0 {
				t.Errorf("%v late writes were counted, want 0", got)
			}
		})
	}
}
