// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/fencing"
)

// Term is one stretch of leadership of a group, as its runners see it.
type Term struct {
	fence fencing.Term
}

// Client returns the configuration of the term's client: writes name the term, and nothing is sent once the term is over.
func (t *Term) Client() *rest.Config { return nil }

// Fence returns what the term's writes are marked with.
func (t *Term) Fence() fencing.Term { return t.fence }

// AddHealthCheck makes a check part of the group's health until the term ends.
func (t *Term) AddHealthCheck(name string, check func(*http.Request) error) {}

// Handle serves a path of the process's mux until the term ends. It does nothing where the process has no mux.
func (t *Term) Handle(path string, handler http.Handler) {}

// OnEnd has f called after all runners have returned and before the Lease is released, the last one first.
func (t *Term) OnEnd(f func()) {}
