// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/controllers/leadership"
)

// recorded is a client configuration that notes requests for ConfigMaps.
func (s *stage) recorded() (*rest.Config, func() []*http.Request) {
	var mu sync.Mutex
	var requests []*http.Request
	config := rest.CopyConfig(s.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/configmaps") {
				mu.Lock()
				requests = append(requests, r)
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	})
	return config, func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return requests
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// termOf returns the term of an elector that leads, and a client that outlives it.
func termOf(t *testing.T, s *stage, change ...func(*plan)) (*candidate, *leadership.Term, kubernetes.Interface) {
	t.Helper()
	var leads atomic.Pointer[leadership.Term]
	a := s.candidate("a", append(change, working(func(ctx context.Context, term *leadership.Term) error {
		leads.Store(term)
		<-ctx.Done()
		return nil
	}))...)
	eventually(t, soon, "a leads", func() (bool, any) { return leads.Load() != nil, a.Statuses() })
	own, err := kubernetes.NewForConfig(leads.Load().Client())
	if err != nil {
		t.Fatal(err)
	}
	return a, leads.Load(), own
}

func TestWritesOfATermNameIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ mark bool }{"header only": {}, "with field manager": {mark: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			config, requests := s.recorded()
			_, term, own := termOf(t, s, as(config), func(p *plan) { p.options.MarkWrites = tc.mark })
			maps := own.CoreV1().ConfigMaps("default")
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.lease.Name}}
			steps := []func() error{
				func() error { _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); return err },
				func() error { _, err := maps.Get(t.Context(), object.Name, metav1.GetOptions{}); return err },
				func() error { _, err := maps.List(t.Context(), metav1.ListOptions{}); return err },
				func() error {
					_, err := maps.Update(t.Context(), object, metav1.UpdateOptions{FieldManager: "own"})
					return err
				},
				func() error {
					_, err := maps.Patch(t.Context(), object.Name, types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
					return err
				},
				func() error { return maps.Delete(t.Context(), object.Name, metav1.DeleteOptions{}) },
				func() error {
					watching, err := maps.Watch(t.Context(), metav1.ListOptions{})
					if err == nil {
						watching.Stop()
					}
					return err
				},
			}
			for _, step := range steps {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			lease := s.get()
			header := fmt.Sprintf("default/%s;%s;%d;%s", s.lease.Name, lease.UID, *lease.Spec.LeaseTransitions, holderOf(lease))
			if got := term.Fence().String(); got != header {
				t.Errorf("the fence is %s, want %s", got, header)
			}
			for _, r := range requests() {
				want, manager := "", ""
				if r.Method != http.MethodGet {
					want = header
				}
				switch {
				case r.Method == http.MethodPut:
					manager = "own"
				case tc.mark && (r.Method == http.MethodPost || r.Method == http.MethodPatch):
					manager = holderOf(lease)
				}
				if got := r.Header.Get("Annex-Term"); got != want {
					t.Errorf("%s %s has the header %q, want %q", r.Method, r.URL.Path, got, want)
				}
				if got := r.URL.Query().Get("fieldManager"); got != manager {
					t.Errorf("%s %s has the field manager %q, want %q", r.Method, r.URL.Path, got, manager)
				}
			}
			if got, want := len(requests()), len(steps); got != want {
				t.Errorf("%d requests were made, want %d", got, want)
			}
		})
	}
}

func TestNothingIsSentAfterTheTerm(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		config, requests := s.recorded()
		a, _, own := termOf(t, s, as(config))
		a.stop()
		_, err := own.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.lease.Name}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "the term is over") {
			t.Errorf("the write was answered %v", err)
		}
		if _, err = own.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{}); err == nil {
			t.Error("the read was sent")
		}
		if len(requests()) > 0 {
			t.Error("a request was sent after the term")
		}
		if got := a.metric("leader_election_late_writes_refused_total"); got != 1 {
			t.Errorf("%v late writes were counted, want 1", got)
		}
	})
}

func TestNothingIsSentByAMachineThatWasSuspended(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		var slept atomic.Int64
		config, requests := s.recorded()
		_, _, own := termOf(t, s, as(config), func(p *plan) {
			p.options.Clock.Elapsed = func() time.Duration { return s.clock.Elapsed() + time.Duration(slept.Load()) }
		})
		slept.Store(int64(quick.LeaseDuration)) // nobody but the client has looked at the clock since
		_, err := own.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.lease.Name}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "was not renewed in time") {
			t.Errorf("the write was answered %v", err)
		}
		if len(requests()) > 0 {
			t.Error("a request was sent after the term")
		}
	})
}

func TestRequestsUnderWayAreCutOffWithTheTerm(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *stage) {
		p := newFaults()
		a, _, own := termOf(t, s, through(p))
		p.set(of("POST", "/configmaps", fault{hole: true}))
		watching, err := own.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan error, 1)
		go func() {
			_, err := own.CoreV1().ConfigMaps("default").Create(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: s.lease.Name}}, metav1.CreateOptions{})
			answer <- err
		}()
		if synctest.Wait(); len(answer) > 0 {
			t.Fatal("the request is not under way")
		}
		a.stop()
		select {
		case err := <-answer:
			if err == nil {
				t.Error("the request succeeded")
			}
		case <-time.After(soon):
			t.Fatal("the request goes on")
		}
		eventually(t, soon, "the watch is cut off", func() (bool, any) {
			select {
			case _, open := <-watching.ResultChan():
				return !open, nil
			default:
				return false, nil
			}
		})
	})
}
