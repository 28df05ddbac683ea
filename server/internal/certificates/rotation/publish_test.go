// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/kube-annex/annex/server/certificates/pki"
)

// refusePatches has the host refuse to take a bundle.
func (h *host) refusePatches() {
	h.registrations.PrependReactor("patch", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "apiservices"}, "x", errors.New("no rights"))
	})
}

// TestASuccessorSignsWhenItWasPublished passes an authority over that the host could not be told about.
func TestASuccessorSignsWhenItWasPublished(t *testing.T) {
	t.Parallel()
	for _, published := range []bool{true, false} {
		h := newHost(emptySecret())
		c := h.certificate(t, NewOptions())
		c.pass(t.Context())
		first := c.current.signer
		next, err := pki.NewSigner("annex-serving-ca", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.store.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.store.write(t.Context(), []*pki.Signer{next, first}); err != nil {
			t.Fatal(err)
		}
		c.options.AuthorityLifetime = time.Nanosecond // has settled at once
		if !published {
			h.refusePatches()
		}
		c.pass(t.Context())
		if signs := c.current.signer.Equal(next); signs != published {
			t.Errorf("published %t: the successor signs: %t", published, signs)
		}
		if believed := verified(h.apiService(t).Spec.CABundle, leafOf(t, c)) == nil; !believed {
			t.Errorf("published %t: the host does not believe the certificate", published)
		}
	}
}

// TestAMissingAPIServiceIsNoProblem of this server, but looked for again soon. What is wrong with others is a problem.
func TestAMissingAPIServiceIsNoProblem(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		names   []string
		refuses bool
		soon    bool
		problem bool
	}{
		"both are there":                 {names: []string{apiServiceName}},
		"one is missing":                 {names: []string{apiServiceName, "v1.missing"}, soon: true},
		"one refuses":                    {names: []string{apiServiceName}, refuses: true, soon: true, problem: true},
		"one is missing and one refuses": {names: []string{apiServiceName, "v1.missing"}, refuses: true, soon: true, problem: true},
	} {
		h := newHost(emptySecret())
		if tc.refuses {
			h.refusePatches()
		}
		c := h.certificate(t, NewOptions())
		c.publisher.names = tc.names
		if wait := c.pass(t.Context()); (wait < c.options.interval()) != tc.soon {
			t.Errorf("%s: looks again in %s", name, wait)
		}
		if apierrors.IsForbidden(c.problem) != tc.problem {
			t.Errorf("%s: the problem is %v", name, c.problem)
		}
		if err := c.Check(nil); err != nil {
			t.Errorf("%s: not ready: %v", name, err)
		}
	}
}
