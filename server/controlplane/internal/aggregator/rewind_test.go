// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestBodiesCanBeSentAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		length  int64
		body    string
		rewound bool
		fails   bool
	}{
		"a body":            {length: 4, body: "body", rewound: true},
		"none":              {},
		"of unknown length": {length: -1, body: "body"},
		"a large one":       {length: maxRewound + 1, body: "body"},
		"one that ends":     {length: 5, body: "body", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(tc.body))
			request.ContentLength = tc.length
			err := rewind(request)
			if (err != nil) != tc.fails || (request.GetBody != nil) != tc.rewound {
				t.Fatalf("error %v, can be sent again: %t; want %t and %t", err, request.GetBody != nil, tc.fails, tc.rewound)
			}
			if tc.fails {
				return
			}
			bodies := []io.Reader{request.Body}
			if tc.rewound {
				again, err := request.GetBody()
				if err != nil {
					t.Fatal(err)
				}
				bodies = append(bodies, again)
			}
			for _, body := range bodies {
				if got, err := io.ReadAll(body); err != nil || string(got) != tc.body {
					t.Errorf("read %q (%v), want %q", got, err, tc.body)
				}
			}
		})
	}
}
