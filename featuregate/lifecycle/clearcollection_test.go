// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/kube-annex/annex/apis/gatedfield"
)

// collection is a resource with objects in pages of two.
type collection struct {
	dynamic.NamespaceableResourceInterface
	namespace string
	state     *collectionState
}

type collectionState struct {
	objects []unstructured.Unstructured
	lists   int
	// held is how many lists finalizers last for.
	held    int
	deletes []string
	errs    map[string]error
}

func newCollection(names ...string) *collection {
	state := &collectionState{errs: map[string]error{}}
	for _, name := range names {
		object := unstructured.Unstructured{}
		namespace, short, ok := strings.Cut(name, "/")
		if !ok {
			namespace, short = "", name
		}
		object.SetNamespace(namespace)
		object.SetName(short)
		object.SetUID(types.UID("uid-of-" + short))
		state.objects = append(state.objects, object)
	}
	return &collection{state: state}
}

func (c *collection) Namespace(namespace string) dynamic.ResourceInterface {
	return &collection{namespace: namespace, state: c.state}
}

func (c *collection) List(_ context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s := c.state
	if err := s.errs["list"]; err != nil {
		return nil, err
	}
	if options.Continue == "" {
		s.lists++
		if s.lists > s.held {
			s.remove(func(o unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
		}
	}
	from := 0
	_, _ = fmt.Sscan(options.Continue, &from)
	// What is deleted between two pages is still in the next one, as with etcd.
	to := min(from+2, len(s.objects))
	page := &unstructured.UnstructuredList{}
	for _, object := range s.objects[from:to] {
		page.Items = append(page.Items, *object.DeepCopy())
	}
	if left := int64(len(s.objects) - to); left > 0 {
		page.SetContinue(fmt.Sprint(to))
		page.SetRemainingItemCount(&left)
	}
	return page, nil
}

func (s *collectionState) remove(which func(unstructured.Unstructured) bool) {
	var left []unstructured.Unstructured
	for _, object := range s.objects {
		if !which(object) {
			left = append(left, object)
		}
	}
	s.objects = left
}

func (c *collection) Delete(_ context.Context, name string, options metav1.DeleteOptions, _ ...string) error {
	if err := c.state.errs[name]; err != nil {
		return err
	}
	for i := range c.state.objects {
		object := &c.state.objects[i]
		if object.GetName() == name && object.GetNamespace() == c.namespace && *options.Preconditions.UID == object.GetUID() {
			object.SetDeletionTimestamp(&metav1.Time{Time: now})
			c.state.deletes = append(c.state.deletes, name)
		}
	}
	return nil
}

func TestClearCollection(t *testing.T) {
	t.Parallel()
	jars := schema.GroupResource{Group: "example.com", Resource: "jars"}
	stale := errors.New("taken over")
	for name, tc := range map[string]struct {
		objects []string
		forbid  bool
		held    int
		errs    map[string]error
		confirm error
		// deletes are the names that are deleted, in order, and reported those of the progress.
		deletes  []string
		reported []string
		err      error
	}{
		"nothing stored":                        {reported: []string{"0 of -1"}},
		"nothing stored, and no data loss":      {forbid: true, reported: []string{"0 of -1"}},
		"something stored, and no data loss":    {objects: []string{"ns/a"}, forbid: true, err: errDataLoss},
		"objects of namespaces and of none":     {objects: []string{"ns/a", "b"}, deletes: []string{"a", "b"}, reported: []string{"2 of -1", "2 of -1"}},
		"several pages":                         {objects: []string{"a", "b", "c", "d", "e"}, deletes: []string{"a", "b", "c", "d", "e"}, reported: []string{"2 of 5", "4 of 5", "5 of -1", "5 of -1"}},
		"objects with finalizers":               {objects: []string{"a", "b"}, held: 2, deletes: []string{"a", "b"}, reported: []string{"2 of -1", "2 of -1", "2 of -1"}},
		"deleted by somebody else":              {objects: []string{"a", "b"}, errs: map[string]error{"a": apierrors.NewNotFound(jars, "a")}, deletes: []string{"b"}},
		"replaced by another of the same name":  {objects: []string{"a", "b"}, errs: map[string]error{"a": apierrors.NewConflict(jars, "a", nil)}, deletes: []string{"b"}},
		"a deletion that is refused":            {objects: []string{"a", "b", "c"}, errs: map[string]error{"b": stale}, deletes: []string{"a"}, err: stale},
		"a list that fails":                     {objects: []string{"a"}, errs: map[string]error{"list": stale}, err: stale},
		"an attempt that is not wanted anymore": {objects: []string{"a"}, confirm: stale, err: stale},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := newCollection(tc.objects...)
			client.state.held = tc.held
			if tc.errs != nil {
				client.state.errs = tc.errs
			}
			var reported []string
			progress := &Progress{
				clock: immediate{clock.RealClock{}}, confirm: func(context.Context) error { return tc.confirm },
				report: func(change func(*taskReport)) {
					r := taskReport{done: -1}
					if change(&r); r.done < 0 {
						return
					}
					total := int64(-1)
					if r.total != nil {
						total = *r.total
					}
					reported = append(reported, fmt.Sprintf("%d of %d", r.done, total))
				},
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if tc.err == nil && tc.errs != nil {
				stop() // The one that was not deleted stays, and the task waits for it.
				tc.err = context.Canceled
			}
			task := ClearCollection(client, !tc.forbid)
			if err := task.Run(ctx, progress); !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("the error is %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.deletes, client.state.deletes); diff != "" {
				t.Errorf("deleted (-want,+got):\n%s", diff)
			}
			if tc.reported != nil && !cmp.Equal(tc.reported, reported) {
				t.Errorf("progress is %q, want %q", reported, tc.reported)
			}
		})
	}
}

func TestClearFieldTellsHowMuchIsLeft(t *testing.T) {
	t.Parallel()
	var totals []int64
	progress := &Progress{clock: clock.RealClock{}, report: func(change func(*taskReport)) {
		var r taskReport
		if change(&r); r.total != nil {
			totals = append(totals, *r.total)
		}
	}}
	field := gatedfield.Field{Kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Jar"}, Path: []string{"spec", "color"}}
	clean := func() Gated { return Gated{Field: field, Client: newCollection("a", "b", "c", "d", "e")} }
	if err := ClearField(nil, clean(), clean()).Run(t.Context(), progress); err != nil {
		t.Fatal(err)
	}
	// Of the second field the objects of the first are part.
	if slices.Sort(totals); len(totals) < 4 || totals[0] != 5 || totals[len(totals)-1] != 10 {
		t.Errorf("the totals are %d", totals)
	}
}

// immediate is a clock whose timers fire after a millisecond at most.
type immediate struct{ clock.WithTicker }

func (i immediate) NewTimer(d time.Duration) clock.Timer {
	return i.WithTicker.NewTimer(min(d, time.Millisecond))
}
