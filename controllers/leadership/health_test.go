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
	s := newStage(t)
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
}

func TestAFollowerIsHealthyAndThePageTellsRoles(t *testing.T) {
	t.Parallel()
	s := newStage(t)
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
}

func TestEveryWedgeIsNamed(t *testing.T) {
	t.Parallel()
	type scene struct {
		change []func(*plan)
		act    func(s *stage, c *candidate)
		reason string
		says   []string
	}
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	scenes := map[string]scene{
		"New blocks": {
			change: []func(*plan){exiting, building(func(*leadership.Term) ([]leadership.Runnable, error) {
				<-over
				return nil, nil
			})},
			act:    func(s *stage, _ *candidate) { s.await(soon, "build", "a", 1) },
			reason: "starting", says: []string{"nothing runs", "New"},
		},
		"a runner is stuck stopping": {
			change: []func(*plan){exiting,
				working(func(context.Context, *leadership.Term) error { return ignoresItsContext(over) }),
				func(p *plan) { p.options.Timings.StopTimeout = 6 * time.Second }},
			act: func(s *stage, c *candidate) {
				s.await(soon, "start", "a", 1)
				c.cancel()
			},
			reason: "stopping", says: []string{"have not returned", "worker"},
		},
		"what is to be called at the end is stuck": {
			change: []func(*plan){exiting,
				working(func(ctx context.Context, term *leadership.Term) error {
					term.OnEnd(func() { <-over })
					<-ctx.Done()
					return nil
				}),
				func(p *plan) { p.options.Timings.StopTimeout = 6 * time.Second }},
			act: func(s *stage, c *candidate) {
				s.await(soon, "start", "a", 1)
				c.cancel()
			},
			reason: "stopping", says: []string{"have not returned", "OnEnd"},
		},
	}
	for name, f := range map[string]func(*http.Request) fault{
		"403": of("PUT POST", "/leases", fault{status: 403}), "409": of("PUT POST", "/leases", fault{status: 409}),
		"500": of("PUT POST", "/leases", fault{status: 500}), "a black hole": always(fault{hole: true}), "reads fail": always(fault{status: 500}),
	} {
		p := newProxy(t)
		p.set(f)
		says := map[string]string{"403": "cannot be used", "409": "someone else wrote", "500": "the proxy says so", "a black hole": "deadline exceeded", "reads fail": "the proxy says so"}
		act := func(*stage, *candidate) {}
		if name == "409" {
			act = func(s *stage, _ *candidate) { s.hold("gone", time.Second) } // so that there is something to update
		}
		scenes["nobody can acquire: "+name] = scene{
			change: []func(*plan){through(p.config())}, act: act,
			reason: "acquiring", says: []string{says[name]},
		}
	}
	for name, tc := range scenes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			c := s.candidate("a", tc.change...)
			tc.act(s, c)
			c.awaitMetric(4*quick.LeaseDuration, 1, "leader_election_wedged", "reason", tc.reason)
			c.awaitMetric(soon, 1, "leader_election_wedged")
			c.wantPage(http.StatusInternalServerError, tc.says...)
			if err := c.Check(nil); err == nil {
				t.Error("the check passes")
			}
		})
	}
}

func TestMissingPermissionsAreNamedWithTheirRemedy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	nobody := rest.CopyConfig(admin)
	nobody.Impersonate.UserName = "nobody"
	for name, config := range map[string]*rest.Config{"no rights at all": nobody} {
		t.Run(name, func(t *testing.T) {
			a := s.candidate("a", through(config))
			eventually(t, soon, "the check fails", func() (bool, any) { err := a.Check(nil); return err != nil, err })
			a.wantPage(http.StatusInternalServerError, "forbidden", "nobody", "grant get, list, watch, create and update on leases")
			if len(s.all("build", "")) > 0 {
				t.Error("a term has begun")
			}
		})
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
