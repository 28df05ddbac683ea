// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package requestbody

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
)

func within(levels int, innermost string) string {
	return strings.Repeat(`{"a":`, levels) + innermost + strings.Repeat("}", levels)
}

func operation(op string, path string) string { return fmt.Sprintf(`{"op":%q,"path":%q}`, op, path) }

func TestPatches(t *testing.T) {
	t.Parallel()
	const merge, jsonPatch = types.MergePatchType, types.JSONPatchType
	text := func(bytes int) string { return `"` + strings.Repeat("a", bytes) + `"` }
	deepPath := func(parts int) string { return strings.Repeat("/a", parts) }
	for name, tc := range map[string]struct {
		kind  types.PatchType
		patch string
		// says is what the refusal tells; nothing is refused without it.
		says string
	}{
		"an empty one":                    {merge, `{}`, ""},
		"as deep as may be":               {merge, within(128, "1"), ""},
		"one level more":                  {merge, within(129, "1"), "more than 128 levels"},
		"lists are levels":                {merge, strings.Repeat("[", 129), "more than 128 levels"},
		"brackets in texts are none":      {merge, within(1, `"`+strings.Repeat(`{[\"`, 1000)+`"`), ""},
		"a quote that is escaped":         {merge, `{"a":"\\","b":` + within(128, "1") + "}", "more than 128 levels"},
		"much that is not deep":           {merge, within(20, text(3<<20)), ""},
		"much that is deep":               {merge, within(100, text(1<<20)), "too large for how deep it is"},
		"no JSON":                         {merge, `}}}`, ""},
		"an operation":                    {jsonPatch, `[` + operation("remove", deepPath(128)) + `]`, ""},
		"one that reaches further":        {jsonPatch, `[` + operation("remove", deepPath(129)) + `]`, "the path of an operation has more than 128 parts"},
		"one that comes from further":     {jsonPatch, `[{"op":"copy","path":"/a","from":"` + deepPath(129) + `"}]`, "the from of an operation has more than 128 parts"},
		"a path that is there twice":      {jsonPatch, `[{"op":"remove","path":"/a","path":"` + deepPath(129) + `"}]`, "the path of an operation"},
		"a path that is overwritten":      {jsonPatch, `[{"op":"remove","path":"` + deepPath(129) + `","path":"/a"}]`, ""},
		"a path in capitals, which hides": {jsonPatch, `[{"op":"remove","path":"` + deepPath(129) + `","PATH":"/a"}]`, "the path of an operation"},
		"slashes elsewhere":               {jsonPatch, `[{"op":"add","path":"/a","value":"` + deepPath(1000) + `"}]`, ""},
		"a value that is deep":            {jsonPatch, `[{"op":"add","path":"/a","value":` + within(127, "1") + `}]`, "more than 128 levels"},
		"many operations":                 {jsonPatch, "[" + strings.TrimSuffix(strings.Repeat(operation("test", "/a")+",", 10_000), ",") + "]", ""},
		"one more":                        {jsonPatch, "[" + strings.TrimSuffix(strings.Repeat(operation("test", "/a")+",", 10_001), ",") + "]", "got 10001"},
		"no JSON patch":                   {jsonPatch, `{"path":"` + deepPath(1000) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := check(tc.kind, []byte(tc.patch))
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

func TestWhatIsJudged(t *testing.T) {
	t.Parallel()
	const limit = 1 << 10
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	deep := within(129, "1")
	long := `{"a":"` + strings.Repeat("a", 2*limit) + `"}`
	for name, tc := range map[string]struct {
		method, contentType, body string
		code                      int
	}{
		"a merge patch":            {http.MethodPatch, "application/merge-patch+json", `{"a":1}`, 200},
		"a deep one":               {http.MethodPatch, "application/merge-patch+json", deep, 413},
		"with a character set":     {http.MethodPatch, "application/merge-patch+json; charset=utf-8", deep, 413},
		"in odd case":              {http.MethodPatch, " Application/Merge-Patch+JSON ", deep, 413},
		"a deep JSON patch":        {http.MethodPatch, "application/json-patch+json", deep, 413},
		"an apply patch":           {http.MethodPatch, "application/apply-patch+yaml", deep, 200},
		"an object":                {http.MethodPost, "application/merge-patch+json", deep, 200},
		"a deep one of the limit":  {http.MethodPatch, "application/merge-patch+json", deep + strings.Repeat(" ", limit-len(deep)), 413},
		"a deep one beyond it":     {http.MethodPatch, "application/merge-patch+json", deep + strings.Repeat(" ", limit+1-len(deep)), 200},
		"what is too long is left": {http.MethodPatch, "application/merge-patch+json", long, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got string
			handler := WithLimits(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				content, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				got = string(content)
			}), codecs, limit)
			recorder := httptest.NewRecorder()
			request := httptest.NewRequestWithContext(t.Context(), tc.method, "/", strings.NewReader(tc.body))
			request.Header.Set("Content-Type", tc.contentType)
			handler.ServeHTTP(recorder, request)
			if recorder.Code != tc.code || tc.code == 200 && got != tc.body {
				t.Errorf("got %d and %d bytes, want %d and all %d", recorder.Code, len(got), tc.code, len(tc.body))
			}
			if tc.code == 413 && !json.Valid(recorder.Body.Bytes()) {
				t.Errorf("the refusal is no status: %s", recorder.Body)
			}
		})
	}
}
