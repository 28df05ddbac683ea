// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"flag"
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kube-annex/annex/server/certificates/pki"
)

var timeouts = flag.Bool("timeouts", false, "wait until the servers end connections on which nothing comes, some two minutes")

// TestTimeouts opens connections that say nothing, or half of what they should, and waits until the servers end them. Without -timeouts it
// only makes sure that they are not ended at once.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	limits := map[string]time.Duration{
		"no greeting": 45 * time.Second, "half a request": 45 * time.Second, "no HTTP/2 request": 2 * time.Minute, "half an HTTP/2 request": 2 * time.Minute,
	}
	for door, address := range plain.doors() {
		for name, limit := range limits {
			t.Run(name+" at "+door, func(t *testing.T) {
				t.Parallel()
				var connection interface {
					io.Reader
					SetReadDeadline(time.Time) error
				}
				switch name {
				case "no greeting":
					silent, end := silence(t, address)
					defer end()
					connection = silent
				case "half a request":
					s := newSession(t, address, plain.tls(t, pki.Pair{}))
					if err := s.dial(t.Context()); err != nil {
						t.Fatal(err)
					}
					if _, err := io.WriteString(s.connection, "GET / HTTP/1.1\r\nHost: a\r\nX-"); err != nil {
						t.Fatal(err)
					}
					connection = s.connection
				default:
					f := newFrames(t, address, plain.tls(t, pki.Pair{}))
					if name == "half an HTTP/2 request" {
						if err := f.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: requestHeaders("GET", "/")}); err != nil {
							t.Fatal(err)
						}
					}
					wantEnded(t, f.closed, limit)
					return
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_ = connection.SetReadDeadline(time.Now().Add(limit + patience))
					_, _ = io.Copy(io.Discard, connection)
				}()
				wantEnded(t, ended, limit)
			})
		}
	}
}

// wantEnded waits for a connection to be ended, or, in the short form of the test, a moment for it not to be.
func wantEnded(t *testing.T, ended <-chan struct{}, limit time.Duration) {
	t.Helper()
	began := time.Now()
	if !*timeouts {
		limit = 200 * time.Millisecond
	}
	select {
	case <-ended:
		if !*timeouts {
			t.Error("it was ended at once, so the long form of this test tests nothing")
		}
		t.Logf("ended after %s", time.Since(began))
	case <-time.After(limit):
		if *timeouts {
			t.Errorf("it is still open after %s", limit)
		}
	}
}
