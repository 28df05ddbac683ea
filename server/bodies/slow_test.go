// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package bodies

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// TestBodiesThatComeSlowly has one body that does not come, and one that comes slowly enough, over each version of HTTP.
func TestBodiesThatComeSlowly(t *testing.T) {
	t.Parallel()
	for name, newer := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		for what, tc := range map[string]struct {
			// bytes come each time, ten times a second.
			bytes, times int
			refused      bool
		}{
			"nothing":        {0, 100, true},
			"a byte":         {1, 100, true},
			"quickly enough": {4 << 10, 40, false},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				read := make(chan error, 1)
				server := httptest.NewUnstartedServer(InFrontOf(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					read <- err
				}), serializer.NewCodecFactory(runtime.NewScheme()), 1<<20))
				server.EnableHTTP2 = newer
				server.StartTLS()
				t.Cleanup(server.Close)
				reader, writer := io.Pipe()
				ended := make(chan struct{})
				go func() {
					ticker := time.NewTicker(100 * time.Millisecond)
					defer ticker.Stop()
					defer func() { _ = writer.Close() }()
					for range tc.times {
						select {
						case <-ticker.C:
						case <-ended:
							return
						}
						if _, err := io.WriteString(writer, strings.Repeat("a", tc.bytes)); err != nil {
							return
						}
					}
				}()
				began := time.Now()
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, reader)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if response, err := server.Client().Do(request); err == nil {
						_ = response.Body.Close()
					}
				}()
				select {
				case err = <-read:
				case <-time.After(30 * time.Second):
					t.Fatal("it is still being read")
				}
				close(ended)
				took := time.Since(began)
				if refused := apierrors.IsTimeout(err); refused != tc.refused || !refused && err != nil {
					t.Errorf("after %s: got %v, want a refusal: %t", took, err, tc.refused)
				}
				if tc.refused && took > 20*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		}
	}
}
