// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authorization

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"

	annexfilters "github.com/kube-annex/annex/server/internal/filters"
)

// TestFailedReviewsAreAnsweredWith503 has a host that is away, one that denies, and a handler that fails.
func TestFailedReviewsAreAnsweredWith503(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		decision authorizer.Decision
		err      error
		code     int
		retry    string
	}{
		"the host is away":  {authorizer.DecisionNoOpinion, errors.New("dial tcp 192.0.2.1:443: connection refused"), http.StatusServiceUnavailable, "1"},
		"the host denies":   {authorizer.DecisionNoOpinion, nil, http.StatusForbidden, ""},
		"the handler fails": {authorizer.DecisionAllow, nil, http.StatusInternalServerError, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := WithHostReviews(authorizer.AuthorizerFunc(func(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
				if _, limited := ctx.Deadline(); !limited {
					t.Error("the review has no deadline")
				}
				return tc.decision, "", tc.err
			}))
			failing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "broken", http.StatusInternalServerError) })
			chain := annexfilters.WithAuthorizerUnavailable(filters.WithAuthorization(failing, host, serializer.NewCodecFactory(runtime.NewScheme())))
			ctx := request.WithUser(t.Context(), &user.DefaultInfo{Name: "somebody"})
			ctx = request.WithRequestInfo(ctx, &request.RequestInfo{Path: "/apis"})
			answer := httptest.NewRecorder()
			chain.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/apis", nil))
			if answer.Code != tc.code || answer.Header().Get("Retry-After") != tc.retry {
				t.Errorf("got %d with Retry-After %q, want %d with %q: %s", answer.Code, answer.Header().Get("Retry-After"), tc.code, tc.retry, answer.Body)
			}
			if tc.code != http.StatusServiceUnavailable {
				return
			}
			var status metav1.Status
			if err := json.Unmarshal(answer.Body.Bytes(), &status); err != nil {
				t.Fatal(err)
			}
			want := metav1.Status{
				TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 503, Reason: "ServiceUnavailable",
				Message: "the host could not be asked whether this is allowed; try again", Details: &metav1.StatusDetails{RetryAfterSeconds: 1},
			}
			if diff := cmp.Diff(want, status); diff != "" {
				t.Errorf("answer (-want,+got):\n%s", diff)
			}
		})
	}
}
