// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/value"
)

// versioned is a store at a version.
type versioned struct {
	storage.Interface
	current uint64
	err     error
	asked   *int
}

func (versioned) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (v versioned) GetCurrentResourceVersion(context.Context) (uint64, error) {
	*v.asked++
	return v.current, v.err
}

func (versioned) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	return watch.NewEmptyWatch(), nil
}

func TestWatchesFromTheFutureAreExpired(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for name, tc := range map[string]struct {
		from   string
		newest uint64
		err    error
		// asked is how often etcd is asked for its version, and newestAfter the highest that is known then.
		asked       int
		newestAfter uint64
		fails       bool
		expired     bool
	}{
		"from now on":                  {from: "", newest: 5, newestAfter: 5},
		"from any":                     {from: "0", newest: 5, newestAfter: 5},
		"from a known version":         {from: "5", newest: 5, newestAfter: 5},
		"from a version since":         {from: "6", newest: 5, asked: 1, newestAfter: 9},
		"from the present one":         {from: "9", newest: 5, asked: 1, newestAfter: 9},
		"from one before a restore":    {from: "10", newest: 5, asked: 1, newestAfter: 5, fails: true, expired: true},
		"from one, and etcd is away":   {from: "6", newest: 5, err: away, asked: 1, newestAfter: 5, fails: true},
		"from one that is no version":  {from: "new", newest: 5, newestAfter: 5, fails: true},
		"from one known before others": {from: "20", newest: 20, newestAfter: 20},
	} {
		asked := 0
		k := freshness{versioned{current: 9, err: tc.err, asked: &asked}, &atomic.Uint64{}}
		k.newest.Store(tc.newest)
		_, err := k.Watch(t.Context(), "/", storage.ListOptions{ResourceVersion: tc.from})
		if (err != nil) != tc.fails || apierrors.IsResourceExpired(err) != tc.expired {
			t.Errorf("%s: %v", name, err)
		}
		if asked != tc.asked || k.newest.Load() != tc.newestAfter {
			t.Errorf("%s: asked %d times, newest %d", name, asked, k.newest.Load())
		}
		if k.raise(1); k.newest.Load() != tc.newestAfter {
			t.Errorf("%s: the newest version went back", name)
		}
	}
}

func TestEventsAreAlteredUntilTheEnd(t *testing.T) {
	t.Parallel()
	source := watch.NewFake()
	w := alter(source, func(event watch.Event) watch.Event {
		event.Type = watch.Bookmark
		return event
	})
	go source.Add(&unstructured.Unstructured{})
	if event := <-w.ResultChan(); event.Type != watch.Bookmark {
		t.Errorf("the event is %s", event.Type)
	}
	go source.Stop()
	if _, open := <-w.ResultChan(); open {
		t.Error("there are events after the end")
	}
	source = watch.NewFakeWithChanSize(1, false)
	w = alter(source, func(event watch.Event) watch.Event { return event })
	source.Add(&unstructured.Unstructured{})
	w.Stop()
	w.Stop()
	// It is closed although nobody took the event.
	for range w.ResultChan() {
	}
}

// transformer fails with an error for each data.
type transformer map[string][]string

func (f transformer) TransformFromStorage(_ context.Context, data []byte, _ value.Context) ([]byte, bool, error) {
	errs := f[string(data)]
	if len(errs) == 0 {
		return data, false, nil
	}
	if len(errs) > 1 {
		f[string(data)] = errs[1:]
	}
	return nil, false, errors.New(errs[0])
}

func (transformer) TransformToStorage(context.Context, []byte, value.Context) ([]byte, error) {
	return nil, errors.New("not needed")
}

func TestWhatCannotBeDecryptedIsBrokenOrNot(t *testing.T) {
	t.Parallel()
	const prefix = "k8s:enc:aescbc:v1:"
	for name, tc := range map[string]struct {
		data     string
		errs     transformer
		findings bool
		broken   bool
		fails    bool
	}{
		"readable":                    {data: prefix + "k:x", errs: transformer{}, findings: true},
		"broken":                      {data: prefix + "k:x", errs: transformer{prefix + "k:x": {"padding"}, prefix: {"no key"}}, findings: true, broken: true},
		"broken, where nobody looks":  {data: prefix + "k:x", errs: transformer{prefix + "k:x": {"padding"}, prefix: {"no key"}}, fails: true},
		"its key is missing":          {data: prefix + "k:x", errs: transformer{prefix + "k:x": {"no key"}, prefix: {"no key"}}, findings: true, fails: true},
		"another error the next time": {data: prefix + "k:x", errs: transformer{prefix + "k:x": {"padding", "away"}, prefix: {"no key"}}, findings: true, fails: true},
		"a prefix that is decrypted":  {data: prefix + "k:x", errs: transformer{prefix + "k:x": {"padding"}}, findings: true, fails: true},
		"of a service that is away":   {data: "k8s:enc:kms:v2:k:x", errs: transformer{"k8s:enc:kms:v2:k:x": {"away"}}, findings: true, fails: true},
		"of no provider":              {data: "x", errs: transformer{"x": {"away"}}, findings: true, fails: true},
	} {
		ctx := t.Context()
		if tc.findings {
			ctx = context.WithValue(ctx, findingsKey{}, findings{})
		}
		out, _, err := tolerantTransformer{tc.errs}.TransformFromStorage(ctx, []byte(tc.data), value.DefaultContext(nil))
		if (err != nil) != tc.fails {
			t.Errorf("%s: %v", name, err)
		}
		if reason := transformError(out); (reason != nil) != tc.broken || tc.broken && reason.Error() != "padding" {
			t.Errorf("%s: the reason is %v", name, reason)
		}
	}
}

func TestWhatCannotBeDecodedIsBrokenOrNot(t *testing.T) {
	t.Parallel()
	typed, untyped := judgementFor(&unstructured.UnstructuredList{}), judgementFor(&unstructured.Unstructured{})
	for data, want := range map[string]bool{`{"kind":"Jar","apiVersion":"example.com/v1"}`: false, `{"apiVersion":"example.com/v1"}`: true, `{`: true, "": true} {
		if untyped([]byte(data), nil) != want || typed([]byte(data), nil) != want {
			t.Errorf("%s is broken: %t, want %t", data, !want, want)
		}
	}
	native := judgementFor(&runtime.Unknown{})
	if native(nil, runtime.NewNotRegisteredErrForKind("test", schema.GroupVersionKind{Kind: "Jar"})) {
		t.Error("an object of a version that is not known is broken")
	}
	if !native(nil, errors.New("no field")) {
		t.Error("an object that cannot be decoded is not broken")
	}
}

// decoder fails with an error that has the data.
type decoder struct{}

func (decoder) Decode([]byte, runtime.Object, int64) error { return nil }

func (decoder) DecodeListItem(_ context.Context, data []byte, _ uint64, newItem func() runtime.Object) (runtime.Object, error) {
	if strings.HasPrefix(string(data), "bad") {
		return nil, errors.New(string(data))
	}
	return newItem(), nil
}

func TestBrokenItemsOfListsAreMarked(t *testing.T) {
	t.Parallel()
	d := tolerantDecoder{decoder{}, func(data []byte, _ error) bool { return string(data) != "bad, not broken" }}
	newItem := func() runtime.Object { return &unstructured.Unstructured{Object: map[string]any{}} }
	for name, tc := range map[string]struct {
		data          string
		findings      bool
		marked, fails bool
	}{
		"good":                      {data: "good", findings: true},
		"bad":                       {data: "bad", findings: true, marked: true},
		"bad, where nobody looks":   {data: "bad", fails: true},
		"bad, and not broken":       {data: "bad, not broken", findings: true, fails: true},
		"not decrypted":             {data: string(untransformed) + "padding", findings: true, marked: true},
		"not decrypted, none looks": {data: string(untransformed) + "padding", fails: true},
	} {
		ctx, found := t.Context(), findings{}
		if tc.findings {
			ctx = context.WithValue(ctx, findingsKey{}, found)
		}
		got, err := d.DecodeListItem(ctx, []byte(tc.data), 7, newItem)
		if (err != nil) != tc.fails || (found[7] != nil) != tc.marked {
			t.Errorf("%s: %v, found %v", name, err, found)
		}
		if !tc.fails && (got.(*unstructured.Unstructured).GetUID() == marker) != tc.marked {
			t.Errorf("%s: the item is %v", name, got)
		}
	}
}
