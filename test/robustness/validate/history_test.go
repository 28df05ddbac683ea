// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func events(revisions ...int64) (out []*clientv3.Event) {
	for _, revision := range revisions {
		out = append(out, &clientv3.Event{Kv: &mvccpb.KeyValue{ModRevision: revision}})
	}
	return out
}

func TestEachRevisionIsCheckedAsAWhole(t *testing.T) {
	t.Parallel()
	h := NewHistory(4)
	var got [][2]int
	if err := h.Play(events(5, 5, 6, 8, 8), func(revision int64, events []*clientv3.Event) error {
		got = append(got, [2]int{int(revision), len(events)})
		if revision == 6 {
			h.Violate("%d events", len(events))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][2]int{{5, 2}, {6, 1}, {8, 2}}, got); diff != "" {
		t.Errorf("revisions and numbers of events (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"revision 6: 1 events"}, h.Violations()); diff != "" {
		t.Errorf("violations (-want,+got):\n%s", diff)
	}
	select {
	case <-h.Violated():
	default:
		t.Error("Violated is open after a violation")
	}
	if err := h.WaitFor(t.Context(), 8); err != nil {
		t.Error(err)
	}
}

func TestAnErrorOfAStepNamesTheRevision(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	err := NewHistory(0).Play(events(3), func(int64, []*clientv3.Event) error { return broken })
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "revision 3") {
		t.Errorf("got %v, want the error of the step with its revision", err)
	}
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewHistory(2).WaitFor(ctx, 3); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "up to revision 2 of 3") {
		t.Errorf("got %v, want an error that names both revisions", err)
	}
}
