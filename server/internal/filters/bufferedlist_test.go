// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// writes notes the sizes of what is written, and where it is flushed.
type writes struct {
	*httptest.ResponseRecorder
	sizes []int
}

func (w *writes) Write(content []byte) (int, error) {
	w.sizes = append(w.sizes, len(content))
	return w.ResponseRecorder.Write(content)
}

func (w *writes) Flush() { w.sizes = append(w.sizes, 0) }

func TestListsAreBuffered(t *testing.T) {
	t.Parallel()
	item := bytes.Repeat([]byte("x"), 1000)
	for name, tc := range map[string]struct {
		verb  string
		items int
		flush bool
		want  []int
	}{
		"a long list":            {verb: "list", items: 50, want: []int{listBufferSize, 50_000 - listBufferSize}},
		"a short list":           {verb: "list", items: 2, want: []int{2000}},
		"nothing":                {verb: "list"},
		"a list that is flushed": {verb: "list", items: 3, flush: true, want: []int{1000, 0, 1000, 0, 1000, 0}},
		"one object":             {verb: "get", items: 2, want: []int{1000, 1000}},
		"a watch":                {verb: "watch", items: 2, want: []int{1000, 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := WithBufferedList(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for range tc.items {
					if n, err := w.Write(item); n != len(item) || err != nil {
						t.Errorf("wrote %d bytes with the error %v", n, err)
					}
					if tc.flush {
						w.(http.Flusher).Flush()
					}
				}
			}))
			for range 2 { // Buffers are used again.
				w := &writes{ResponseRecorder: httptest.NewRecorder()}
				r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
				handler.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), &request.RequestInfo{Verb: tc.verb})))
				if diff := cmp.Diff(tc.want, w.sizes); diff != "" {
					t.Errorf("writes (-want,+got):\n%s", diff)
				}
				if got := w.Body.Len(); got != tc.items*len(item) {
					t.Errorf("%d bytes have come, want %d", got, tc.items*len(item))
				}
			}
		})
	}
}
