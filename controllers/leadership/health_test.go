// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/controllers/leadership"
)

// page is what /healthz/leadership answers.
func (c *candidate) page() (int, string) {
	recorder := httptest.NewRecorder()
	c.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/healthz/leadership", nil))
	return recorder.Code, recorder.Body.String()
}

func (c *candidate) wantPage(code int, parts ...string) {
	c.t.Helper()
	got, text := c.page()
	if got != code {
		c.t.Errorf("the page has status %d, want %d: %s", got, code, text)
	}
	wantIn(c.t, "the page", text, parts...)
}

func TestHealthChecksAndHandlersComeAndGoWithTheTerm(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		mux, switches := &paths{}, make(chan bool)
		broken := errors.New("the cache is stale")
		var last *leadership.Term
		ends := 0
		a := s.candidate("a", switched(switches), func(p *plan) { p.mux = mux }, working(func(ctx context.Context, term *leadership.Term) error {
			last = term
			term.AddHealthCheck("cache", func(*http.Request) error { return broken })
			term.Handle("/debug/group", http.NotFoundHandler())
			term.OnEnd(func() { ends++ })
			<-ctx.Done()
			return nil
		}))
		for term := 1; term <= 2; term++ {
			switches <- true
			s.await(soon, "start", "a", term)
			eventually(t, soon, "the check fails", func() (bool, any) {
				err := a.Check(nil)
				return err != nil && strings.Contains(err.Error(), "cache: the cache is stale"), err
			})
			eventually(t, soon, "the path is served", func() (bool, any) { return len(mux.all()) == 1, mux.all() })
			a.wantPage(http.StatusInternalServerError, s.lease.Name+": leading", "the cache is stale")
			switches <- false
			a.role(leadership.Off)
			a.wantPage(http.StatusOK, s.lease.Name+": off")
			if len(mux.all()) > 0 || ends != term {
				t.Errorf("after the term, %v is served, and OnEnd was called %d times, want %d", mux.all(), ends, term)
			}
		}
		// What comes too late is not kept.
		last.AddHealthCheck("late", func(*http.Request) error { return broken })
		last.Handle("/debug/late", http.NotFoundHandler())
		last.OnEnd(func() { ends++ })
		if err := a.Check(nil); err != nil || len(mux.all()) > 0 || ends != 3 {
			t.Errorf("what was added late: check %v, paths %v, OnEnd called %d times", err, mux.all(), ends)
		}
	})
}

func TestAFollowerIsHealthyAndThePageTellsRoles(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		a := s.candidate("a")
		holder := s.await(soon, "start", "a", 1).holder
		b := s.candidate("b")
		eventually(t, soon, "b knows the holder", func() (bool, any) { status := b.Statuses()[0]; return status.Holder == holder, status })
		a.role(leadership.Leading)
		a.wantPage(http.StatusOK, s.lease.Name+": leading", holder)
		b.wantPage(http.StatusOK, s.lease.Name+": follower", "the Lease is held by "+holder)
		if err := b.Check(nil); err != nil {
			t.Error(err)
		}
	})
}

func TestEveryWedgeIsNamed(t *testing.T) {
	t.Parallel()
	type wedge struct {
		// start starts the elector; over is closed when the test ends.
		start  func(s *stage, over <-chan struct{}) *candidate
		reason string
		says   []string
	}
	stopping := func(work func(over <-chan struct{}) func(context.Context, *leadership.Term) error) func(*stage, <-chan struct{}) *candidate {
		return func(s *stage, over <-chan struct{}) *candidate {
			c := s.candidate("a", exiting, working(work(over)), func(p *plan) { p.options.Timings.StopTimeout = 6 * time.Second })
			s.await(soon, "start", "a", 1)
			c.cancel()
			return c
		}
	}
	wedges := map[string]wedge{
		"New blocks": {
			start: func(s *stage, over <-chan struct{}) *candidate {
				return s.candidate("a", exiting, building(func(*leadership.Term) ([]leadership.Runnable, error) {
					<-over
					return nil, nil
				}))
			},
			reason: "starting", says: []string{"nothing runs", "New"},
		},
		"a runner is stuck stopping": {
			start: stopping(func(over <-chan struct{}) func(context.Context, *leadership.Term) error {
				return func(context.Context, *leadership.Term) error { return ignoresItsContext(over) }
			}),
			reason: "stopping", says: []string{"have not returned", "worker"},
		},
		"what is to be called at the end is stuck": {
			start: stopping(func(over <-chan struct{}) func(context.Context, *leadership.Term) error {
				return func(ctx context.Context, term *leadership.Term) error {
					term.OnEnd(func() { <-over })
					<-ctx.Done()
					return nil
				}
			}),
			reason: "stopping", says: []string{"have not returned", "OnEnd"},
		},
	}
	for name, tc := range map[string]struct {
		rule func(*http.Request) fault
		says string
	}{
		"403":          {of("PUT POST", "/leases", fault{status: 403}), "cannot be used"},
		"409":          {of("PUT POST", "/leases", fault{status: 409}), "someone else wrote"},
		"500":          {of("PUT POST", "/leases", fault{status: 500}), "the proxy says so"},
		"a black hole": {always(fault{hole: true}), "deadline exceeded"},
		"reads fail":   {always(fault{status: 500}), "the proxy says so"},
	} {
		wedges["nobody can acquire: "+name] = wedge{
			start: func(s *stage, _ <-chan struct{}) *candidate {
				if name == "409" {
					s.hold("gone", time.Second) // so that there is something to update
				}
				f := newFaults()
				f.set(tc.rule)
				return s.candidate("a", through(f))
			},
			reason: "acquiring", says: []string{tc.says},
		}
	}
	for name, tc := range wedges {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *stage) {
				over := make(chan struct{})
				defer close(over)
				c := tc.start(s, over)
				c.awaitMetric(4*quick.LeaseDuration, 1, "leader_election_wedged", "reason", tc.reason)
				c.awaitMetric(0, 1, "leader_election_wedged")
				c.wantPage(http.StatusInternalServerError, tc.says...)
				if err := c.Check(nil); err == nil {
					t.Error("the check passes")
				}
			})
		})
	}
}

func TestMissingPermissionsAreNamedWithTheirRemedy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	nobody := rest.CopyConfig(admin)
	nobody.Impersonate.UserName = "nobody"
	a := s.candidate("a", as(nobody))
	eventually(t, soon, "the check fails", func() (bool, any) { err := a.Check(nil); return err != nil, err })
	a.wantPage(http.StatusInternalServerError, "forbidden", "nobody", "grant get, list, watch, create and update on leases")
	if len(s.all("build", "")) > 0 {
		t.Error("a term has begun")
	}
}

func TestAMissingNamespaceIsNamed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.candidate("a", func(p *plan) { p.group.Lease = types.NamespacedName{Namespace: "nowhere", Name: "lease"} })
	eventually(t, soon, "the check fails", func() (bool, any) { err := a.Check(nil); return err != nil, err })
	a.wantPage(http.StatusInternalServerError, "nowhere", "see that it exists")
	if len(s.all("build", "")) > 0 {
		t.Error("a term has begun")
	}
}
