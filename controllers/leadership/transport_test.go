// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answers is a transport without a network.
type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) { return a(request), nil }

// upgraded is the body of a response after which the connection is used otherwise.
type upgraded struct{ io.ReadWriteCloser }

func (upgraded) Close() error { return nil }

// TestARequestIsForgottenWhenItsBodyIsClosed leaves the connection of an upgrade as it is, until the term ends.
func TestARequestIsForgottenWhenItsBodyIsClosed(t *testing.T) {
	t.Parallel()
	for code, isUpgrade := range map[int]bool{http.StatusOK: false, http.StatusNotFound: false, http.StatusSwitchingProtocols: true} {
		b := newBubbleGroup(t, &leaseStore{}, untilStopped)
		term := b.newTerm(b.held(t))
		term.renewedAt(b.clock.Elapsed(), time.Hour)
		var sent context.Context
		client := &fenced{term: term, next: answers(func(request *http.Request) *http.Response {
			sent = request.Context()
			return &http.Response{StatusCode: code, Body: upgraded{}}
		})}
		response, err := client.RoundTrip(httptest.NewRequest(http.MethodGet, "/api/v1/pods/a/exec", http.NoBody))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := response.Body.(io.Writer); ok != isUpgrade {
			t.Errorf("%d: the connection can be written to: %t", code, ok)
		}
		if err := sent.Err(); err != nil {
			t.Errorf("%d: the request has ended before its body was closed: %v", code, err)
		}
		if err := response.Body.Close(); err != nil || (sent.Err() == nil) != isUpgrade {
			t.Errorf("%d: after its body was closed the request has ended: %v, %v", code, sent.Err(), err)
		}
		term.end(errTermOver)
		<-sent.Done()
	}
}

// TestATermThatMayNotReadIsReportedByOneEvent looks at the groups every second.
func TestATermThatMayNotReadIsReportedByOneEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleGroup(t, &leaseStore{}, untilStopped)
		var events []time.Duration
		b.options.Client.Transport = answers(func(request *http.Request) *http.Response {
			if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/namespaces/default/events") {
				t.Errorf("%s %s", request.Method, request.URL)
			}
			events = append(events, b.now())
			return &http.Response{
				StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader(`{"kind":"Event","apiVersion":"events.k8s.io/v1"}`)),
				Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
			}
		})
		held := b.held(t)
		lead := func() {
			term := b.newTerm(held)
			term.renewedAt(b.clock.Elapsed(), time.Hour)
			b.status.setStarting(term, newWork(b.group, term), nil)
			b.status.setLeading()
			for _, at := range []time.Duration{b.clock.Elapsed(), b.clock.Elapsed() + DefaultLeaseDuration + 1} {
				term.denials.note(at, httptest.NewRequest(http.MethodGet, "/api/v1/pods", http.NoBody), &http.Response{
					StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader("no")),
				})
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { b.elector.watchStuck(ctx) })
		synctest.Wait()
		if stuck := b.metric(t, "wedged"); stuck != 0 {
			t.Errorf("%g reasons for which a follower is stuck", stuck)
		}
		pass(stuckCheckInterval / 2)
		lead()
		pass(3 * stuckCheckInterval)
		lead()
		pass(3 * stuckCheckInterval)
		if stuck := b.metric(t, "wedged"); stuck != 1 {
			t.Errorf("%g reasons for which a term is stuck, want one", stuck)
		}
		stop()
		watching.Wait()
		if diff := cmp.Diff([]time.Duration{stuckCheckInterval, 4 * stuckCheckInterval}, events); diff != "" {
			t.Errorf("Events of two terms (-want,+got):\n%s", diff)
		}
	})
}
