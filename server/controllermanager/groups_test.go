// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controllermanager

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/controllers/clusterclaims/clusterid"
	"github.com/kube-annex/annex/controllers/nodeballoons"
)

func TestWhichLeasesAreOurs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"annex-observer":              true,
		"annex-clusterclaims":         true,
		"annex-node-balloons":         true,
		"annex-controllers-x5kq2":     true,
		"annex-controllers":           false,
		"annex-observer-of-mine":      false,
		"leader-elected-controller":   false,
		"my-annex-controllers-x5kq2a": false,
	} {
		if got := OwnsLease(name); got != want {
			t.Errorf("%s is ours: %t, want %t", name, got, want)
		}
	}
}

func TestGroupsHaveALeaseEachInTheNamespace(t *testing.T) {
	t.Parallel()
	groups := NewGroups()
	groups.LeaseNamespace = "elsewhere"
	list := groups.List()
	// `annex up` leads the control plane's group besides.
	if len(list) > 2 {
		t.Errorf("there are %d groups; at most 2 keep `annex up` at 3", len(list))
	}
	for _, group := range list {
		if group.Lease.Namespace != "elsewhere" {
			t.Errorf("the Lease of %s is in %s", group.Name, group.Lease.Namespace)
		}
	}
}

func TestAGroupWithNothingToDoIsNotLed(t *testing.T) {
	t.Parallel()
	groups := NewGroups()
	groups.ClusterID.Source = clusterid.SourceNone
	if led := len(groups.List()); led != 1 {
		t.Errorf("%d groups are led, want the observer alone", led)
	}
	groups.Hub.Config = &rest.Config{Host: "https://hub.example.com"}
	if led := len(groups.List()); led != 2 {
		t.Errorf("%d groups are led, want one for reservations", led)
	}
	for mode, want := range map[nodeballoons.Mode]int{nodeballoons.Off: 2, nodeballoons.On: 3, nodeballoons.Remove: 3} {
		groups.NodeBalloons.Mode = mode
		if led := len(groups.List()); led != want {
			t.Errorf("with node balloons %s, %d groups are led, want %d", mode, led, want)
		}
	}
}
