// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestARefusalCountsWhenItIsRepeated has requests at times in seconds: informers repeat them, and who only tries does not.
func TestARefusalCountsWhenItIsRepeated(t *testing.T) {
	t.Parallel()
	const pods, nodes = "/api/v1/pods", "/api/v1/nodes"
	type answer struct {
		at   int
		path string
		code int
	}
	for name, tc := range map[string]struct {
		answers []answer
		// asked is when, and named the path of which the message is; empty for none.
		asked int
		named string
	}{
		"once":                            {[]answer{{0, pods, 403}}, 60, ""},
		"for a short while":               {[]answer{{0, pods, 403}, {5, pods, 403}, {14, pods, 403}}, 60, ""},
		"for longer":                      {[]answer{{0, pods, 403}, {5, pods, 403}, {16, pods, 403}}, 16, pods},
		"and then not":                    {[]answer{{0, pods, 403}, {16, pods, 403}, {17, pods, 200}}, 17, ""},
		"given up":                        {[]answer{{0, pods, 403}, {16, pods, 403}}, 200, ""},
		"the one that has lasted longest": {[]answer{{0, nodes, 403}, {1, pods, 403}, {20, pods, 403}, {20, nodes, 403}}, 20, nodes},
		"given up for a moment":           {[]answer{{0, pods, 403}, {120, pods, 403}}, 120, pods},
		"given up, and begun anew":        {[]answer{{0, pods, 403}, {121, pods, 403}}, 121, ""},
		"not given up yet":                {[]answer{{0, pods, 403}, {16, pods, 403}}, 136, pods},
		"given up by now":                 {[]answer{{0, pods, 403}, {16, pods, 403}}, 137, ""},
		"for just as long":                {[]answer{{0, pods, 403}, {15, pods, 403}}, 15, ""},
		"late, and for a short while":     {[]answer{{100, pods, 403}, {105, pods, 403}}, 105, ""},
		"one object":                      {[]answer{{0, pods + "/a", 403}, {20, pods + "/a", 403}}, 20, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d denials
			for _, a := range tc.answers {
				response := &http.Response{StatusCode: a.code, Body: io.NopCloser(strings.NewReader("no"))}
				d.note(time.Duration(a.at)*time.Second, httptest.NewRequest(http.MethodGet, a.path, http.NoBody), response)
				if body, err := io.ReadAll(response.Body); string(body) != "no" || err != nil {
					t.Errorf("the body became %q, %v", body, err)
				}
			}
			got := d.longest(time.Duration(tc.asked)*time.Second, 15*time.Second)
			if (got == "") != (tc.named == "") || !strings.Contains(got, tc.named) {
				t.Errorf("got %q, want a message about %q", got, tc.named)
			}
		})
	}
}
