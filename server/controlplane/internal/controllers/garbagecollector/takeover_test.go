// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package garbagecollector

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestANewMonitorTakesOver compares what a monitor knows with what the one before knew.
func TestANewMonitorTakesOver(t *testing.T) {
	t.Parallel()
	owned := ownedBy("ConfigMap", "gone")
	for name, tc := range map[string]struct {
		previous, synced bool
		want             []string
	}{
		"first of its kind": {false, true, nil},
		"not synced":        {true, false, nil},
		"after another":     {true, true, []string{"child", "new-owner"}},
	} {
		c := newTestController(t, obj("same"), obj("new-owner", ownedBy("ConfigMap", "other")), obj("child", owned))
		m := c.of(obj("x"))
		m.synced = func() bool { return tc.synced }
		if tc.previous {
			m.previous = newTestController(t, obj("same"), obj("new-owner"), obj("gone"), obj("child", owned)).of(obj("x"))
		}
		ctx, stop := context.WithCancel(t.Context())
		if !tc.synced {
			stop()
		}
		c.takeOver(ctx, m)
		stop()
		if diff := cmp.Diff(tc.want, c.queued()); diff != "" {
			t.Errorf("%s: decided upon (-want,+got):\n%s", name, diff)
		}
		if kept := m.previous != nil; kept != (tc.previous && !tc.synced) {
			t.Errorf("%s: the previous monitor is kept %t", name, kept)
		}
	}
}

func TestObjectsOfAKindWithoutDefinitionAreForgotten(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		away, defined bool
		definition    any
		want          []string
		kept          bool
	}{
		"its definition is gone":        {true, true, apierrors.NewNotFound(definitions, "configmaps"), []string{"child"}, false},
		"its definition is there":       {true, true, obj("configmaps"), nil, true},
		"its definition cannot be read": {true, true, errors.New("away"), nil, true},
		"it is served":                  {false, true, apierrors.NewNotFound(definitions, "configmaps"), nil, true},
		"it was never defined":          {true, false, apierrors.NewNotFound(definitions, "configmaps"), nil, true},
	} {
		c := newTestController(t, obj("owner"), obj("child", outside, ownedBy("ConfigMap", "owner")))
		m, err := newMonitor(c.client, kind{resource: definitions.WithVersion("v1")}, c.handler(definitions))
		if err != nil {
			t.Fatal(err)
		}
		c.monitors[definitions] = m
		c.answers["get configmaps"] = tc.definition
		c.of(obj("x")).away.Store(tc.away)
		if tc.defined {
			c.defined[configMaps.GroupResource()] = time.Time{}
		}
		c.dropUndefined(t.Context())
		if diff := cmp.Diff(tc.want, c.queued()); diff != "" || (c.monitors[configMaps.GroupResource()] != nil) != tc.kept {
			t.Errorf("%s: kept %t, want %t; decided upon (-want,+got):\n%s", name, !tc.kept, tc.kept, diff)
		}
	}
}

func TestAMonitorKnowsWhatTheOneBeforeKnew(t *testing.T) {
	t.Parallel()
	m := newTestController(t, obj("new"), obj("both")).of(obj("x"))
	if n := len(m.known()); n != 2 {
		t.Errorf("%d objects are known, want 2", n)
	}
	m.previous = newTestController(t, obj("old"), obj("both")).of(obj("x"))
	got := map[string]int{}
	for _, known := range m.known() {
		got[known.Name]++
	}
	if diff := cmp.Diff(map[string]int{"new": 1, "both": 1, "old": 1}, got); diff != "" {
		t.Errorf("known (-want,+got):\n%s", diff)
	}
}
