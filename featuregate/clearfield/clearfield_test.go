// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clearfield

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/kube-annex/annex/apis/gatedfield"
)

// server answers lists and patches as it was told to, one answer after the other.
type server struct {
	dynamic.NamespaceableResourceInterface
	lists   []func(metav1.ListOptions) (*unstructured.UnstructuredList, error)
	patches []func() (*unstructured.Unstructured, error)
	asked   []string
}

func (s *server) Namespace(string) dynamic.ResourceInterface { return s }

func (s *server) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.asked = append(s.asked, "list from "+options.Continue)
	next := s.lists[0]
	s.lists = s.lists[1:]
	return next(options)
}

func (s *server) Patch(_ context.Context, name string, typ types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	asked := "patch " + name
	for _, subresource := range subresources {
		asked += "/" + subresource
	}
	if typ != types.MergePatchType || string(data) != "{}" {
		asked += ": " + string(data)
	}
	s.asked = append(s.asked, asked)
	next := s.patches[0]
	s.patches = s.patches[1:]
	return next()
}

func object(name, color string) unstructured.Unstructured {
	out := unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "namespace": "default"}, "spec": map[string]any{}}}
	if color != "" {
		out.Object["spec"] = map[string]any{"color": color}
	}
	return out
}

func page(from string, items ...unstructured.Unstructured) func(metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return func(metav1.ListOptions) (*unstructured.UnstructuredList, error) {
		out := &unstructured.UnstructuredList{Object: map[string]any{}, Items: items}
		out.SetContinue(from)
		return out, nil
	}
}

func expired(goOn string) func(metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	err := apierrors.NewResourceExpired("compacted")
	err.ErrStatus.Continue = goOn
	return func(metav1.ListOptions) (*unstructured.UnstructuredList, error) { return nil, err }
}

func answer(err error) func() (*unstructured.Unstructured, error) {
	out := object("a", "")
	return func() (*unstructured.Unstructured, error) { return &out, err }
}

// kept is the answer of a replica that has not seen yet that the feature is TurningOff.
func kept() (*unstructured.Unstructured, error) {
	out := object("a", "red")
	return &out, nil
}

func TestClear(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "example.annex.test", Resource: "widgets"}
	busy := apierrors.NewTooManyRequests("busy", 0)
	conflict := apierrors.NewConflict(resource, "a", errors.New("changed"))
	forbidden := apierrors.NewForbidden(resource, "a", errors.New("no rights"))
	for name, tc := range map[string]struct {
		server server
		path   []string
		from   Progress
		want   Progress
		err    error
		asked  []string
	}{
		"nothing": {server: server{lists: []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("")}}, asked: []string{"list from "}},
		"those that have it, on two pages": {
			server: server{
				lists:   []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("x", object("a", "red"), object("b", "")), page("", object("c", "red"))},
				patches: []func() (*unstructured.Unstructured, error){answer(nil), answer(nil)},
			},
			want: Progress{Seen: 3, Cleared: 2}, asked: []string{"list from ", "patch a", "list from x", "patch c"},
		},
		"resumed": {
			server: server{lists: []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("", object("c", ""))}},
			from:   Progress{Continue: "x", Seen: 2, Cleared: 1}, want: Progress{Seen: 3, Cleared: 1}, asked: []string{"list from x"},
		},
		"resumed too late, and offered where to go on": {
			server: server{lists: []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){expired("y"), page("")}},
			from:   Progress{Continue: "x"}, asked: []string{"list from x", "list from y"},
		},
		"resumed too late": {
			server: server{lists: []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){expired(""), page("")}},
			from:   Progress{Continue: "x"}, asked: []string{"list from x", "list from "},
		},
		"others write too": {
			server: server{
				lists:   []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("", object("a", "red"))},
				patches: []func() (*unstructured.Unstructured, error){answer(conflict), answer(busy), answer(nil)},
			},
			want: Progress{Seen: 1, Cleared: 1}, asked: []string{"list from ", "patch a", "patch a", "patch a"},
		},
		"a replica is late": {
			server: server{
				lists:   []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("", object("a", "red"))},
				patches: []func() (*unstructured.Unstructured, error){kept, kept, answer(nil)},
			},
			want: Progress{Seen: 1, Cleared: 1}, asked: []string{"list from ", "patch a", "patch a", "patch a"},
		},
		"the server keeps it": {
			server: server{
				lists:   []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("", object("a", "red"))},
				patches: []func() (*unstructured.Unstructured, error){kept, kept, kept, kept, kept},
			},
			err: ErrStillSet, asked: []string{"list from ", "patch a", "patch a", "patch a", "patch a", "patch a"},
		},
		"deleted meanwhile": {
			server: server{
				lists:   []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("", object("a", "red"))},
				patches: []func() (*unstructured.Unstructured, error){answer(apierrors.NewNotFound(resource, "a"))},
			},
			want: Progress{Seen: 1, Cleared: 1}, asked: []string{"list from ", "patch a"},
		},
		"refused on the second page": {
			server: server{
				lists:   []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("x", object("b", "")), page("", object("a", "red"))},
				patches: []func() (*unstructured.Unstructured, error){answer(forbidden)},
			},
			want: Progress{Continue: "x", Seen: 1}, err: forbidden, asked: []string{"list from ", "list from x", "patch a"},
		},
		"a field of status": {
			server: server{
				lists: []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){page("", unstructured.Unstructured{Object: map[string]any{
					"metadata": map[string]any{"name": "a"}, "status": map[string]any{"list": []any{map[string]any{"summary": ""}}},
				}})},
				patches: []func() (*unstructured.Unstructured, error){answer(nil)},
			},
			path: []string{"status", "list", gatedfield.EachItem, "summary"},
			want: Progress{Seen: 1, Cleared: 1}, asked: []string{"list from ", "patch a/status"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.path == nil {
				tc.path = []string{"spec", "color"}
			}
			var told Progress
			got, err := Clear(t.Context(), Options{
				// One at a time, so that requests have an order.
				Client: &tc.server, Field: gatedfield.Field{Path: tc.path}, Workers: 1,
				Progress: func(_ context.Context, now Progress) error { told = now; return nil },
			}, tc.from)
			if !errors.Is(err, tc.err) {
				t.Errorf("got error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("progress (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(told, got); diff != "" {
				t.Errorf("the progress that was told (-told,+returned):\n%s", diff)
			}
			if diff := cmp.Diff(tc.asked, tc.server.asked); diff != "" {
				t.Errorf("requests (-want,+got):\n%s", diff)
			}
		})
	}
}

// meeting has patches wait for each other until there are so many at a time, and fails one of them.
type meeting struct {
	dynamic.NamespaceableResourceInterface
	items []unstructured.Unstructured
	wants int
	fails string
	limit int64

	mu             sync.Mutex
	present, most  int
	together       chan struct{}
	finished, asks int
}

func (m *meeting) Namespace(string) dynamic.ResourceInterface { return m }

func (m *meeting) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	m.limit = options.Limit
	return page("", m.items...)(metav1.ListOptions{})
}

func (m *meeting) Patch(ctx context.Context, name string, _ types.PatchType, _ []byte, _ metav1.PatchOptions, _ ...string) (*unstructured.Unstructured, error) {
	m.mu.Lock()
	m.asks++
	m.present++
	if m.most = max(m.most, m.present); m.present == m.wants {
		close(m.together)
		m.wants = -1
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.present--
		m.finished++
	}()
	select {
	case <-m.together:
	case <-time.After(time.Minute):
		return nil, errors.New("the others did not come")
	}
	if name == m.fails {
		return nil, errFails
	}
	if m.fails != "" {
		<-ctx.Done() // the failure ends the others
		return nil, ctx.Err()
	}
	out := object(name, "")
	return &out, nil
}

var errFails = errors.New("it fails")

func newMeeting(objects, wants int) *meeting {
	m := &meeting{wants: wants, together: make(chan struct{})}
	for i := range objects {
		m.items = append(m.items, object(fmt.Sprint("o", i), "red"))
	}
	return m
}

func TestWritesOfAPageAreConcurrentAndBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		objects, workers, wants int
		page                    int64
		limiter                 flowcontrol.RateLimiter
	}{
		"by default":            {objects: 100, wants: 16, page: 500},
		"with a limiter":        {objects: 100, wants: 2, page: 100, limiter: flowcontrol.NewFakeAlwaysRateLimiter()},
		"as many as one wishes": {objects: 100, workers: 3, wants: 3, page: 500},
		"fewer objects":         {objects: 2, workers: 3, wants: 2, page: 500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMeeting(tc.objects, tc.wants)
			got, err := Clear(t.Context(), Options{Client: m, Field: gatedfield.Field{Path: []string{"spec", "color"}}, Workers: tc.workers, Limiter: tc.limiter}, Progress{})
			if err != nil {
				t.Fatal(err)
			}
			if want := int64(tc.objects); got.Seen != want || got.Cleared != want || m.finished != tc.objects {
				t.Errorf("progress %+v after %d writes, want %d objects", got, m.finished, tc.objects)
			}
			if m.limit != tc.page {
				t.Errorf("read %d objects at a time, want %d", m.limit, tc.page)
			}
			if m.most != tc.wants {
				t.Errorf("%d writes at a time, want %d", m.most, tc.wants)
			}
		})
	}
}

// TestOneFailureEndsThePage has one of several concurrent writes fail: the others end, nothing is begun any more, and the page does
// not count.
func TestOneFailureEndsThePage(t *testing.T) {
	t.Parallel()
	const workers = 4
	m := newMeeting(100, workers)
	m.fails = "o2"
	got, err := Clear(t.Context(), Options{
		Client: m, Field: gatedfield.Field{Path: []string{"spec", "color"}}, Workers: workers,
		Progress: func(context.Context, Progress) error { t.Error("told progress"); return nil },
	}, Progress{Continue: "x", Seen: 7})
	if !errors.Is(err, errFails) || !strings.Contains(err.Error(), "default/o2") {
		t.Errorf("got %v, want %v about default/o2", err, errFails)
	}
	if diff := cmp.Diff(Progress{Continue: "x", Seen: 7}, got); diff != "" {
		t.Errorf("progress (-want,+got):\n%s", diff)
	}
	if m.asks != workers || m.finished != workers {
		t.Errorf("%d writes were begun and %d had ended, want %d", m.asks, m.finished, workers)
	}
}

// paid counts how often it is asked.
type paid struct {
	flowcontrol.RateLimiter
	times int
}

func (p *paid) Wait(context.Context) error {
	p.times++
	return nil
}

func TestListsCountAsManyRequests(t *testing.T) {
	t.Parallel()
	s := server{
		lists: []func(metav1.ListOptions) (*unstructured.UnstructuredList, error){
			page("x", object("a", "red"), object("b", "")), expired("x"), page("", object("c", "")),
		},
		patches: []func() (*unstructured.Unstructured, error){answer(nil)},
	}
	limiter := &paid{}
	_, err := Clear(t.Context(), Options{Client: &s, Field: gatedfield.Field{Path: []string{"spec", "color"}}, Limiter: limiter, PageSize: 200}, Progress{})
	if err != nil {
		t.Fatal(err)
	}
	// Three lists of up to 200 objects, one of which failed, and a patch.
	if want := 3*11 + 1; limiter.times != want {
		t.Errorf("the limiter was asked %d times, want %d", limiter.times, want)
	}
}
