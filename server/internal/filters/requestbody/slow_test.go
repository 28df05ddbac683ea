// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package requestbody

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
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
				server := httptest.NewUnstartedServer(WithLimits(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
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

// connection is a client's body of which some bytes come at each interval. It records whether the server has given up on it.
type connection struct {
	http.ResponseWriter
	interval time.Duration
	parts    []string
	over     chan struct{}
}

func (c *connection) SetReadDeadline(time.Time) error {
	close(c.over)
	return nil
}

// Read implements io.Reader.
func (c *connection) Read(p []byte) (int, error) {
	if len(c.parts) == 0 {
		return 0, io.EOF
	}
	select {
	case <-c.over:
		return 0, os.ErrDeadlineExceeded
	case <-time.After(c.interval):
	}
	n := copy(p, c.parts[0])
	c.parts = c.parts[1:]
	return n, nil
}

// Close implements io.Closer.
func (c *connection) Close() error { return nil }

// TestOnlyTimeSpentWaitingForTheClientCounts has readers and clients pause in turn.
func TestOnlyTimeSpentWaitingForTheClientCounts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		// pause is that of the reader before each Read, interval that of the client before each part.
		pause, interval time.Duration
		part            string
		refused         bool
	}{
		"a prompt client and a reader that pauses": {pause: time.Minute, interval: time.Millisecond, part: "a"},
		"a slow client":                                     {interval: 2 * time.Second, part: "a", refused: true},
		"a slow client and a reader that pauses":            {pause: time.Minute, interval: 2 * time.Second, part: "a", refused: true},
		"a client at the required speed":                    {interval: time.Second, part: strings.Repeat("a", 16<<10)},
		"a client below the required speed":                 {interval: 2 * time.Second, part: strings.Repeat("a", 16<<10), refused: true},
		"a client that keeps one Read waiting for too long": {interval: 6 * time.Second, part: "a", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := &connection{ResponseWriter: httptest.NewRecorder(), interval: tc.interval, over: make(chan struct{})}
				for range 20 {
					client.parts = append(client.parts, tc.part)
				}
				body := newInTime(client, client)
				defer body.stop()
				buffer := make([]byte, 32<<10)
				var read int
				var err error
				for err == nil {
					<-time.After(tc.pause)
					var n int
					n, err = body.Read(buffer)
					read += n
				}
				if refused := apierrors.IsTimeout(err); refused != tc.refused || !refused && (!errors.Is(err, io.EOF) || read != 20*len(tc.part)) {
					t.Errorf("after %d bytes: got %v, want a refusal: %t", read, err, tc.refused)
				}
			})
		})
	}
}
