// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clearfield

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

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
				Client: &tc.server, Field: gatedfield.Field{Path: tc.path},
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
