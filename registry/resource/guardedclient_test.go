// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
)

func TestGuardedWrites(t *testing.T) {
	t.Parallel()
	etcd := testserver.RunEtcd(t, nil)
	client := GuardClient(etcd.Kubernetes, etcd.KV)

	cases := map[string]struct {
		// own and other are written before the attempt; expected and pinned are what the attempt relies on, counted
		// from those writes: 0 absent, 1 the revision written, 2 some other revision.
		own, other       bool
		expected, pinned int
		wantBroken       bool
		wantSucceeded    bool
	}{
		"create, other absent as read":          {expected: 0, pinned: 0, wantSucceeded: true},
		"create, other as read":                 {other: true, expected: 0, pinned: 1, wantSucceeded: true},
		"create, other appeared":                {other: true, expected: 0, pinned: 0, wantBroken: true},
		"create, other gone":                    {expected: 0, pinned: 2, wantBroken: true},
		"create, other changed":                 {other: true, expected: 0, pinned: 2, wantBroken: true},
		"create, own exists":                    {own: true, expected: 0, pinned: 0},
		"create, own exists and other appeared": {own: true, other: true, expected: 0, pinned: 0},
		"change, other as read":                 {own: true, other: true, expected: 1, pinned: 1, wantSucceeded: true},
		"change, own moved on":                  {own: true, other: true, expected: 2, pinned: 1},
		"change, other changed":                 {own: true, other: true, expected: 1, pinned: 2, wantBroken: true},
	}
	writes := map[string]func(ctx context.Context, key string, expected int64) (bool, bool, error){
		"put": func(ctx context.Context, key string, expected int64) (bool, bool, error) {
			r, err := client.OptimisticPut(ctx, key, []byte("new"), expected, kubernetes.PutOptions{GetOnFailure: true})
			return r.Succeeded, r.KV != nil, err
		},
		"delete": func(ctx context.Context, key string, expected int64) (bool, bool, error) {
			r, err := client.OptimisticDelete(ctx, key, expected, kubernetes.DeleteOptions{GetOnFailure: true})
			return r.Succeeded, r.KV != nil, err
		},
	}
	for verb, write := range writes {
		for name, tc := range cases {
			if verb == "delete" && !tc.own {
				continue
			}
			t.Run(verb+": "+name, func(t *testing.T) {
				t.Parallel()
				own, other := "/own/"+t.Name(), "/other/"+t.Name()
				revision := func(key string, exists bool, relied int) int64 {
					var written int64
					if exists {
						response, err := etcd.Put(t.Context(), key, "old")
						if err != nil {
							t.Fatal(err)
						}
						written = response.Header.Revision
					}
					return []int64{0, written, 1}[relied]
				}
				expected, pinned := revision(own, tc.own, tc.expected), revision(other, tc.other, tc.pinned)
				ctx := withGuard(t.Context())
				guardFrom(ctx).add(own, pin{key: other, revision: pinned})

				succeeded, current, err := write(ctx, own, expected)
				if broken := (*pinBrokenError)(nil); errors.As(err, &broken) != tc.wantBroken || (err != nil && !tc.wantBroken) {
					t.Fatalf("got error %v, want broken pin %t", err, tc.wantBroken)
				}
				if succeeded != tc.wantSucceeded {
					t.Errorf("succeeded: got %t, want %t", succeeded, tc.wantSucceeded)
				}
				if !succeeded && err == nil && current != tc.own {
					t.Errorf("a failed compare returned the current value: %t, want %t", current, tc.own)
				}
				after, err := etcd.Client.Get(t.Context(), own)
				if err != nil {
					t.Fatal(err)
				}
				old := len(after.Kvs) == 1 && string(after.Kvs[0].Value) == "old"
				if !succeeded && old != tc.own {
					t.Errorf("an attempt that failed changed its key: %v", after.Kvs)
				}
				if succeeded && old {
					t.Error("an attempt that succeeded changed nothing")
				}
			})
		}
	}
}

func TestPinsBelongToTheirKeyAndAttempt(t *testing.T) {
	t.Parallel()
	ctx := withGuard(context.Background())
	g := guardFrom(ctx)
	g.add("/a", pin{key: "/x", revision: 1})
	g.add("/a", pin{key: "/y", revision: 2})
	g.add("/b", pin{key: "/z", revision: 3})
	if got := len(g.of("/a").pins); got != 2 {
		t.Errorf("/a has %d pins, want 2", got)
	}
	g.begin("/a", &companionWrite{key: "/c"})
	if got := g.of("/a"); len(got.pins) != 0 || got.companion == nil {
		t.Errorf("a new attempt at /a has %+v, want its companion and no pins", got)
	}
	if got := g.of("/b"); len(got.pins) != 1 || got.companion != nil {
		t.Errorf("an attempt at /a left /b with %+v, want 1 pin", got)
	}
	if got := guardFrom(context.Background()).of("/a"); got.pins != nil || got.companion != nil {
		t.Errorf("a request without a guard has %+v", got)
	}
}

func TestRepeatPausesBetweenAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		last, pause := time.Now(), time.Duration(0)
		calls := 0
		_, _ = repeat(t.Context(), nil, func(context.Context) (struct{}, error) {
			if waited := time.Since(last); calls > 0 && (waited < pause || waited > 2*pause) {
				t.Errorf("attempt %d began %s after the one before, want %s to %s", calls, waited, pause, 2*pause)
			}
			pause = firstPause << calls
			last, calls = time.Now(), calls+1
			return struct{}{}, &pinBrokenError{own: "/a", other: "/b"}
		})
		if waited := time.Since(last); waited != 0 {
			t.Errorf("gave up %s after the last attempt, want at once", waited)
		}

		ctx, cancel := context.WithCancel(t.Context())
		_, err := repeat(ctx, nil, func(context.Context) (struct{}, error) {
			cancel()
			return struct{}{}, &pinBrokenError{own: "/a", other: "/b"}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a request that was cancelled ends with %v", err)
		}
	})
}

func TestRepeatGivesUpWithTheConflict(t *testing.T) {
	t.Parallel()
	giveUp := errors.New("conflict")
	calls := 0
	_, err := repeat(t.Context(), giveUp, func(context.Context) (struct{}, error) {
		calls++
		return struct{}{}, &pinBrokenError{own: "/a", other: "/b"}
	})
	if calls != attempts || !errors.Is(err, giveUp) {
		t.Errorf("got %v after %d attempts, want the conflict after %d", err, calls, attempts)
	}
	_, err = repeat(t.Context(), giveUp, func(ctx context.Context) (struct{}, error) {
		if guardFrom(ctx) == nil {
			t.Error("an attempt has no guard")
		}
		return struct{}{}, errors.ErrUnsupported
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("another error became %v", err)
	}
}

// TestRepeatReadsAnewAfterABrokenPin repeats a request once: what the process remembered has been found out to be out of date.
func TestRepeatReadsAnewAfterABrokenPin(t *testing.T) {
	t.Parallel()
	var anew []bool
	_, err := repeat(t.Context(), nil, func(ctx context.Context) (struct{}, error) {
		anew = append(anew, guardFrom(ctx).readsAnew())
		if len(anew) == 1 {
			return struct{}{}, &pinBrokenError{own: "/a", other: "/b"}
		}
		return struct{}{}, nil
	})
	if want := []bool{false, true}; err != nil || !slices.Equal(anew, want) {
		t.Errorf("the attempts read anew: %v, %v; want %v", anew, err, want)
	}
}
