// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/server/etcd"
)

const (
	// leaseName is the Lease, in kube-system, of the controllers that run in one replica at a time.
	leaseName = "annex-controlplane"
	// groupName is what these controllers are called in logs, metrics and health details.
	groupName = "controlplane"
	// leadershipPath tells who leads.
	leadershipPath = "/healthz/leadership"
	// exitTimeout is how long the embedded etcd gets to stop when the process has to end at once. It takes no more writes then, so
	// nobody could act on a Lease that runs out meanwhile.
	exitTimeout = 5 * time.Second
)

// StopStore returns what is to be done before a process ends at once that has the backend: an embedded etcd is stopped.
func StopStore(backend *etcd.Backend, beforeExit func(error)) func(error) {
	return func(why error) {
		if beforeExit != nil {
			beforeExit(why)
		}
		backend.StopWithin(exitTimeout)
	}
}

// leading returns what runs the controllers that run in one replica at a time, until its context ends.
func (s *Server) leading(c *chain, namespaces <-chan struct{}) (func(context.Context) error, error) {
	if !s.options.serve(leaseKind) {
		return func(ctx context.Context) error {
			s.alone(ctx, c.config.LoopbackClientConfig)
			return nil
		}, nil
	}
	candidate, err := s.candidate(c)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return lead(ctx, candidate, namespaces) }, nil
}

// candidate returns what campaigns for the controllers that run in one replica at a time.
func (s *Server) candidate(c *chain) (*leadership.Candidate, error) {
	o := s.options.Leadership.Candidate(c.config.LoopbackClientConfig, s.options.Gates)
	if o.Owner == "" {
		o.Owner = s.backend.Owner
	}
	o.BeforeExit = StopStore(s.backend, o.BeforeExit)
	candidate, err := leadership.New(o, leadership.Group{
		Name:  groupName,
		Lease: types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: leaseName},
		New:   func(term *leadership.Term) ([]leadership.Runner, error) { return s.led(term.Client()) },
	})
	if err != nil {
		return nil, fmt.Errorf("set up leadership: %w", err)
	}
	mux := c.front().Handler.NonGoRestfulMux
	candidate.UseMux(mux)
	mux.Handle(leadershipPath, roles(append([]*leadership.Candidate{candidate}, s.options.Beside...)))
	if err := c.front().AddReadyzChecks(candidate); err != nil {
		return nil, fmt.Errorf("add the readiness check of leadership: %w", err)
	}
	return candidate, nil
}

// lead runs the candidate, once its Lease can be written, until the context ends.
func lead(ctx context.Context, candidate *leadership.Candidate, namespaces <-chan struct{}) error {
	select {
	case <-namespaces:
		return candidate.Run(ctx)
	case <-ctx.Done():
		return nil
	}
}

// roles tells the role of every group in plain text, a line each, with status 500 while one is not healthy.
type roles []*leadership.Candidate

// ServeHTTP implements http.Handler.
func (r roles) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var text strings.Builder
	status := http.StatusOK
	for _, candidate := range r {
		for _, role := range candidate.Statuses() {
			_, _ = fmt.Fprintln(&text, role)
		}
		if err := candidate.Check(request); err != nil {
			status = http.StatusInternalServerError
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text.String())
}
