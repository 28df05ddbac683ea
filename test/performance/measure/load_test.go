// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestLoadDoesEachOperationOnce(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		load Load
		want int
	}{
		"a fixed number":          {load: Load{Clients: 3, Least: 50, Most: 50}, want: 50},
		"fewer than clients":      {load: Load{Clients: 8, Least: 2, Most: 2}, want: 2},
		"no more than the most":   {load: Load{Clients: 2, For: time.Hour, Most: 20}, want: 20},
		"the least if time is up": {load: Load{Clients: 1, Least: 4}, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var seen []int
			done, err := tc.load.Run(t.Context(), func(_ context.Context, client, i int) error {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, i)
				if client < 0 || client >= tc.load.Clients {
					t.Errorf("there is a client %d", client)
				}
				return nil
			})
			slices.Sort(seen)
			if err != nil || done.Operations != tc.want || len(slices.Compact(seen)) != tc.want || len(done.Took) != tc.want {
				t.Errorf("%d operations, of them different %d, with the error %v; want %d", done.Operations, len(slices.Compact(seen)), err, tc.want)
			}
		})
	}
}

func TestLoadLastsUntilTimeIsUp(t *testing.T) {
	t.Parallel()
	done, err := Load{Clients: 2, For: 30 * time.Millisecond}.Run(t.Context(), func(context.Context, int, int) error { return nil })
	if err != nil || done.Wall < 30*time.Millisecond || done.Operations < 2 {
		t.Errorf("%d operations in %s, with the error %v", done.Operations, done.Wall, err)
	}
}

func TestLoadTellsWhatFailed(t *testing.T) {
	t.Parallel()
	bad := errors.New("bad")
	done, err := Load{Clients: 2, Least: 10, Most: 10}.Run(t.Context(), func(_ context.Context, _, i int) error {
		if i == 3 {
			return bad
		}
		return nil
	})
	if !errors.Is(err, bad) || done.Operations != 9 {
		t.Errorf("%d operations with the error %v, want 9 and %v", done.Operations, err, bad)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Load{Clients: 1, Least: 1}).Run(ctx, func(context.Context, int, int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a load that was stopped ends with %v", err)
	}
}
