// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options Options
		want    []string
	}{
		"defaults":        {*NewOptions(), nil},
		"all that can be": {Options{Mode: On, Image: "example.com/pause:1", StartupTaint: "example.com/starting=yes:NoSchedule"}, nil},
		"no value":        {Options{Mode: Remove, StartupTaint: "starting:PreferNoSchedule"}, nil},
		"unknown mode":    {Options{Mode: "on"}, []string{`--node-balloons is "on"; set it to Off, On or Remove`}},
		"no effect":       {Options{Mode: On, StartupTaint: "starting"}, []string{"--startup-taint", "NoSchedule"}},
		"NoExecute":       {Options{Mode: On, StartupTaint: "starting:NoExecute"}, []string{"not on the node yet"}},
		"no key":          {Options{Mode: On, StartupTaint: ":NoSchedule"}, []string{"--startup-taint"}},
		"two images":      {Options{Mode: On, Image: "a b"}, []string{"--node-balloon-image", "one image"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got string
			for _, err := range tc.options.Validate() {
				got += err.Error() + "\n"
			}
			if (got == "") != (tc.want == nil) {
				t.Errorf("the mistakes are %q, want %v", got, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("the mistakes are %q, want %q", got, want)
				}
			}
		})
	}
}

// TestRunLeavesNothingBehind ends a controller that has never reached its cluster, and one that is off.
func TestRunLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it looks at all goroutines of the process
	before := goleak.IgnoreCurrent()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	for _, mode := range []Mode{Off, On, Remove} {
		c, err := New(Options{Host: &rest.Config{Host: server.URL}, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		if err := c.Run(ctx); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if ctx.Err() == nil {
			t.Errorf("%s: it returned before its context ended", mode)
		}
		cancel()
	}
	server.Close()
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}
