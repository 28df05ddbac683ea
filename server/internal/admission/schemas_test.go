// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/openapi"
)

// schemasOf is a client whose schemas come and go; without any it fails.
type schemasOf struct{ names atomic.Pointer[[]string] }

func (s *schemasOf) set(names ...string) { s.names.Store(&names) }

func (s *schemasOf) Paths() (map[string]openapi.GroupVersion, error) {
	names := s.names.Load()
	if names == nil {
		return nil, errors.New("away")
	}
	paths := map[string]openapi.GroupVersion{}
	for _, name := range *names {
		paths[name] = nil
	}
	return paths, nil
}

// TestSchemasThatAreOutOfDate waits until there is one that the library did not see when it asked last, in a bubble.
func TestSchemasThatAreOutOfDate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		seen, later []string // nil if nobody asked, or nobody answers
		outdated    bool
	}{
		"one more":         {[]string{"a"}, []string{"a", "b"}, true},
		"another one":      {[]string{"a"}, []string{"b"}, true},
		"the same":         {[]string{"a", "b"}, []string{"b", "a"}, false},
		"one less":         {[]string{"a", "b"}, []string{"a"}, false},
		"never asked for":  {nil, []string{"a"}, false},
		"no answer":        {[]string{"a"}, nil, false},
		"the first of all": {[]string{}, []string{"a"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := &schemasOf{}
				schemas := newSchemaClient(client)
				if _, err := schemas.Paths(); err == nil {
					t.Fatal("paths of a server that is away")
				}
				known := func() bool {
					select {
					case <-schemas.synced:
						return true
					default:
						return false
					}
				}
				if known() {
					t.Error("the schemas of a server that is away are known")
				}
				if tc.seen != nil {
					client.set(tc.seen...)
					for range 2 {
						if _, err := schemas.Paths(); err != nil || !known() {
							t.Fatalf("known: %t, %v", known(), err)
						}
					}
				}
				if client.names.Store(nil); tc.later != nil {
					client.set(tc.later...)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				schemas.waitOutdated(ctx)
				if outdated := ctx.Err() == nil; outdated != tc.outdated {
					t.Errorf("out of date: %t, want %t", outdated, tc.outdated)
				}
			})
		})
	}
}
