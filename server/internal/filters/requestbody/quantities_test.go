// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package requestbody

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// TestQuantitiesAreCheckedBeforeAnythingReadsThem sends a quantity that takes 17 seconds of a core to compare.
func TestQuantitiesAreCheckedBeforeAnythingReadsThem(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	info := func(group, resource, subresource string) *request.RequestInfo {
		return &request.RequestInfo{IsResourceRequest: true, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: subresource}
	}
	const huge, fine = `{"spec":{"nodeSize":{"cpu":"1e30000000"}}}`, `{"spec":{"nodeSize":{"cpu":"1e3"}}}`
	for name, tc := range map[string]struct {
		method, contentType, body string
		info                      *request.RequestInfo
		code                      int
	}{
		"create a balloon":   {http.MethodPost, "application/json", huge, info("node.k8s.io", "nodeballoons", ""), 400},
		"resize":             {http.MethodPatch, "application/merge-patch+json", huge, info("node.k8s.io", "nodeballoons", "resize"), 400},
		"status":             {http.MethodPut, "application/yaml", huge, info("node.k8s.io", "nodeballoons", "status"), 400},
		"apply":              {http.MethodPatch, "application/apply-patch+yaml", huge, info("node.k8s.io", "nodeballoons", ""), 400},
		"a quota":            {http.MethodPost, "application/json", `{"spec":{"hard":{"pods":"1e-30000000"}}}`, info("", "resourcequotas", ""), 400},
		"a fine quantity":    {http.MethodPost, "application/json", fine, info("node.k8s.io", "nodeballoons", ""), 200},
		"text of others":     {http.MethodPost, "application/json", huge, info("", "configmaps", ""), 200},
		"another resource":   {http.MethodPost, "application/json", huge, info("example.com", "nodeballoons", ""), 200},
		"no resource at all": {http.MethodPost, "application/json", huge, &request.RequestInfo{}, 200},
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
			}), codecs, 1<<20)
			recorder := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(request.WithRequestInfo(t.Context(), tc.info), tc.method, "/", strings.NewReader(tc.body))
			r.Header.Set("Content-Type", tc.contentType)
			handler.ServeHTTP(recorder, r)
			if recorder.Code != tc.code || tc.code == 200 && got != tc.body || tc.code != 200 && got != "" {
				t.Errorf("got %d, and %q was read; want %d: %s", recorder.Code, got, tc.code, recorder.Body)
			}
			if tc.code == 400 && !strings.Contains(recorder.Body.String(), "exponent that is out of range") {
				t.Errorf("the refusal does not say why: %s", recorder.Body)
			}
		})
	}
}
