// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// followerOf follows a Lease that no watch tells of.
func followerOf(store *leaseStore, retry time.Duration) *follower {
	name := types.NamespacedName{Namespace: "default", Name: "lease"}
	return &follower{lock: &lock{leases: store, name: name, now: time.Now, duration: time.Minute}, retry: retry, timeout: time.Minute}
}

// requestsOf follows a Lease for a time, and returns what was asked for and when.
func requestsOf(t *testing.T, f *follower, store *leaseStore, lasting time.Duration, before func(verb string) error, meanwhile func()) []string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), lasting)
	defer stop()
	began := time.Now()
	var requests []string
	store.before = func(_ context.Context, verb string) error {
		requests = append(requests, fmt.Sprint(verb, " ", time.Since(began)))
		return before(verb)
	}
	go meanwhile()
	out := make(chan observedLease, 100)
	f.run(ctx, out)
	synctest.Wait()
	return requests
}

func fine(string) error { return nil }

func TestAFollowerThatIsRestartedReadsAnewAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &leaseStore{}
		f := followerOf(store, time.Hour)
		f.restart() // before it runs, there is nothing to end
		got := requestsOf(t, f, store, 3*time.Second, fine, func() {
			pass(time.Second)
			f.restart()
		})
		if diff := cmp.Diff([]string{"get 0s", "watch 0s", "get 1s", "watch 1s"}, got); diff != "" {
			t.Errorf("requests (-want,+got):\n%s", diff)
		}
	})
}

func TestALeaseThatCannotBeReadIsNotWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &leaseStore{}
		got := requestsOf(t, followerOf(store, time.Hour), store, 3*time.Second, func(verb string) error {
			if verb == "get" {
				return errors.New("away")
			}
			return nil
		}, func() {})
		if diff := cmp.Diff([]string{"get 0s"}, got); diff != "" {
			t.Errorf("requests (-want,+got):\n%s", diff)
		}
	})
}

// TestWhenTheNextWatchBegins pauses after watches that were short, lest a server that ends them is asked all the time.
func TestWhenTheNextWatchBegins(t *testing.T) {
	t.Parallel()
	const retry = 2 * time.Second
	for name, end := range map[string]func(*watch.FakeWatcher){
		"closed": func(w *watch.FakeWatcher) { w.Stop() },
		"error":  func(w *watch.FakeWatcher) { w.Error(&metav1.Status{}) },
	} {
		for lasting, want := range map[time.Duration]bool{0: false, retry - 1: false, retry: false, retry + 1: true, time.Minute: true} {
			synctest.Test(t, func(t *testing.T) {
				w := watch.NewFake()
				go func() {
					pass(lasting)
					end(w)
				}()
				f := followerOf(&leaseStore{watcher: func() watch.Interface { return w }}, retry)
				if got := f.watch(t.Context(), nil, nil); got != want {
					t.Errorf("%s after %s: the next one begins at once: %t, want %t", name, lasting, got, want)
				}
			})
		}
	}
}

// TestWhatAWatchTells takes what is no Lease for the end of the watch, and not for a Lease that was deleted.
func TestWhatAWatchTells(t *testing.T) {
	t.Parallel()
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	for name, tc := range map[string]struct {
		event watch.Event
		want  []string
		ended bool
	}{
		"added":        {event: watch.Event{Type: watch.Added, Object: lease("a")}, want: []string{"a"}},
		"modified":     {event: watch.Event{Type: watch.Modified, Object: lease("a")}, want: []string{"a"}},
		"deleted":      {event: watch.Event{Type: watch.Deleted, Object: lease("a")}, want: []string{""}},
		"bookmark":     {event: watch.Event{Type: watch.Bookmark, Object: lease("a")}},
		"error":        {event: watch.Event{Type: watch.Error, Object: &metav1.Status{}}, ended: true},
		"other object": {event: watch.Event{Type: watch.Modified, Object: &metav1.Status{}}, ended: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := watch.NewFake()
			ctx, stop := context.WithCancel(t.Context())
			out, ended := make(chan observedLease, 10), make(chan bool)
			go func() {
				defer close(ended)
				followerOf(&leaseStore{watcher: func() watch.Interface { return w }}, time.Second).watch(ctx, nil, out)
			}()
			w.Action(tc.event.Type, tc.event.Object)
			synctest.Wait()
			over := false
			select {
			case <-ended:
				over = true
			default:
			}
			stop()
			<-ended
			close(out)
			var got []string
			for observed := range out {
				got = append(got, holderOf(observed.lease))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || over != tc.ended {
				t.Errorf("%s: ended %t, want %t; holders (-want,+got):\n%s", name, over, tc.ended, diff)
			}
		})
	}
}

func TestAPauseIsStretchedByAFifthAtMost(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if got := jittered(time.Second); got < time.Second || got > 1200*time.Millisecond {
			t.Fatalf("a pause of 1s takes %s", got)
		}
	}
}
