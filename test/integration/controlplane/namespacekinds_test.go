// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/kube-annex/annex/server/controlplane"
	"github.com/kube-annex/annex/server/controlplane/controllertest"
)

// emptier runs the controller that empties the namespaces of a host that has none, behind a gate.
func emptier(t *testing.T, h *host) *gate {
	t.Helper()
	config, g := throughGate(h.Admin())
	controllertest.RunNamespaceController(t, config, h.Admin())
	return g
}

func startEmptying(t *testing.T) (*emptying, *gate) {
	t.Helper()
	e := startHost(t, func(o *controlplane.Options) { o.DisabledControllers = []string{"namespace-deletion"} }).emptying()
	createDefinition(t, e.Admin(), "gears", "v1", "v2")
	return e, emptier(t, e.host)
}

// TestObjectsGoWithTheirNamespaceAlthoughTheirVersionIsNotServedAnyMore ends the version that discovery lists before the objects are listed.
func TestObjectsGoWithTheirNamespaceAlthoughTheirVersionIsNotServedAnyMore(t *testing.T) {
	t.Parallel()
	e, g := startEmptying(t)
	ns := e.fresh(t, "doomed")
	e.put(t, gears[1], "Gear", ns.Name, "a")
	list, release := g.hold(http.MethodGet, "/apis/example.com/v2/namespaces/doomed/gears")
	e.remove(t, ns.Name)
	waitReached(t, list)
	serve(t, e.Admin(), "gears", "v2", false)
	release()
	e.waitGone(t, ns)
	if left := e.count(t, gears[0], ns.Name); left > 0 {
		t.Errorf("%d objects outlived their namespace", left)
	}
}

// TestANamespaceStaysWhileAKindIsDefinedButNotServed: its objects would be in the next namespace of the name when the kind is served again.
func TestANamespaceStaysWhileAKindIsDefinedButNotServed(t *testing.T) {
	t.Parallel()
	e, _ := startEmptying(t)
	ns := e.fresh(t, "doomed")
	e.put(t, gears[1], "Gear", ns.Name, "a")
	serve(t, e.Admin(), "gears", "v1", false)
	serve(t, e.Admin(), "gears", "v2", false)
	e.remove(t, ns.Name)
	e.waitCondition(t, ns.Name, corev1.NamespaceDeletionDiscoveryFailure, "gears.example.com are defined but not served")
	serve(t, e.Admin(), "gears", "v1", true)
	e.waitGone(t, ns)
	if left := e.count(t, gears[0], ns.Name); left > 0 {
		t.Errorf("%d objects outlived their namespace", left)
	}
}
