// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/server/certificates/pki"
)

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	client := core(t, h.Admin())
	path := func(path string) *authorizationv1.NonResourceAttributes {
		return &authorizationv1.NonResourceAttributes{Verb: "get", Path: path}
	}
	resource := func(verb, group, resource, subresource string) *authorizationv1.ResourceAttributes {
		return &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource}
	}
	for name, tc := range map[string]struct {
		user     string
		groups   []string
		resource *authorizationv1.ResourceAttributes
		path     *authorizationv1.NonResourceAttributes
		want     bool
	}{
		"masters, anything":                         {user: "a", groups: []string{"system:masters"}, resource: resource("delete", "x", "y", "z"), want: true},
		"masters, any path":                         {user: "a", groups: []string{"system:masters"}, path: path("/debug/pprof"), want: true},
		"somebody, secrets":                         {user: "a", groups: []string{"system:authenticated"}, resource: resource("list", "", "secrets", "")},
		"somebody, discovery":                       {user: "a", groups: []string{"system:authenticated"}, path: path("/apis/apps/v1"), want: true},
		"somebody, metrics":                         {user: "a", groups: []string{"system:authenticated"}, path: path("/metrics")},
		"nobody, health":                            {user: "system:anonymous", groups: []string{"system:unauthenticated"}, path: path("/livez"), want: true},
		"nobody, version":                           {user: "system:anonymous", groups: []string{"system:unauthenticated"}, path: path("/version"), want: true},
		"nobody, discovery":                         {user: "system:anonymous", groups: []string{"system:unauthenticated"}, path: path("/apis")},
		"monitoring, metrics":                       {user: "a", groups: []string{"system:monitoring"}, path: path("/metrics"), want: true},
		"aggregator, OpenAPI":                       {user: "system:aggregator", path: path("/openapi/v2"), want: true},
		"aggregator's discovery, a group":           {user: "system:kube-aggregator", path: path("/apis/features.k8s.io/v1alpha1"), want: true},
		"aggregator, secrets":                       {user: "system:aggregator", resource: resource("get", "", "secrets", "")},
		"a group that has the name of a user":       {groups: []string{"system:kube-aggregator"}, path: path("/openapi/v2")},
		"a user that has the name of a great group": {user: "system:masters", resource: resource("list", "", "namespaces", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
				Spec: authorizationv1.SubjectAccessReviewSpec{User: tc.user, Groups: tc.groups, ResourceAttributes: tc.resource, NonResourceAttributes: tc.path},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if review.Status.Allowed != tc.want || review.Status.Denied {
				t.Errorf("got %+v, want allowed %t", review.Status, tc.want)
			}
		})
	}
}

func TestReviews(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	admin, user := core(t, h.Admin()), core(t, h.As("carol", "team"))

	who, err := user.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || who.Status.UserInfo.Username != "carol" {
		t.Errorf("whoami: %v, %v", who, err)
	}
	self, err := user.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets"}},
	}, metav1.CreateOptions{})
	if err != nil || self.Status.Allowed {
		t.Errorf("can-i: %v, %v", self, err)
	}
	rules, err := user.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"},
	}, metav1.CreateOptions{})
	if err != nil || len(rules.Status.ResourceRules) != 2 || rules.Status.Incomplete {
		t.Errorf("can-i --list: %v, %v", rules, err)
	}
	token, err := admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: "made up"},
	}, metav1.CreateOptions{})
	if err != nil || token.Status.Authenticated {
		t.Errorf("a made up token: %v, %v", token, err)
	}
	local := &authorizationv1.LocalSubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "u", ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "kube-system", Verb: "get", Resource: "secrets"}},
	}
	if _, err := admin.AuthorizationV1().LocalSubjectAccessReviews("default").Create(t.Context(), local, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a local review of another namespace: got %v, want 422", err)
	}
	if _, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an empty review: got %v, want 422", err)
	}
	if _, err := user.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody asking about others: got %v, want 403", err)
	}
	if _, err := user.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody listing secrets: got %v, want 403", err)
	}
}

func TestWhoIsBelieved(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	stranger, err := h.FrontProxy.Client("stranger", "not-an-allowed-name")
	if err != nil {
		t.Fatal(err)
	}
	proxyPairAsUser, err := h.Clients.Client("impostor", "annex-aggregator")
	if err != nil {
		t.Fatal(err)
	}
	spoof := map[string]string{"X-Remote-User": "spoofed", "X-Remote-Group": "system:masters", "X-Remote-Uid": "1"}
	for name, tc := range map[string]struct {
		pair       pki.Pair
		headers    map[string]string
		wantStatus int
		wantUser   string
	}{
		"a front proxy":                          {pair: h.Proxy, headers: spoof, wantStatus: http.StatusCreated, wantUser: `"username":"spoofed"`},
		"a front proxy without a user":           {pair: h.Proxy, wantStatus: http.StatusUnauthorized},
		"nobody with headers":                    {headers: spoof, wantStatus: http.StatusUnauthorized},
		"a stranger of the proxies' authority":   {pair: stranger, headers: spoof, wantStatus: http.StatusUnauthorized},
		"a user named like the proxy, headers":   {pair: proxyPairAsUser, headers: spoof, wantStatus: http.StatusCreated, wantUser: `"username":"annex-aggregator"`},
		"nobody":                                 {wantStatus: http.StatusUnauthorized},
		"a made up token":                        {headers: map[string]string{"Authorization": "Bearer x"}, wantStatus: http.StatusUnauthorized},
		"a user of the client authority, a user": {pair: proxyPairAsUser, wantStatus: http.StatusCreated, wantUser: `"username":"annex-aggregator"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := send(t, h.With(tc.pair), http.MethodPost, h.URL+"/apis/authentication.k8s.io/v1/selfsubjectreviews",
				`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, tc.headers)
			if status != tc.wantStatus || !strings.Contains(body, tc.wantUser) {
				t.Errorf("got %d %s, want %d with %s", status, body, tc.wantStatus, tc.wantUser)
			}
			// The proxy's certificate can name a user, but its headers for the UID are not believed.
			if strings.Contains(body, `"uid":"1"`) {
				t.Errorf("the UID header was believed: %s", body)
			}
		})
	}
}

func TestProbesNeedNoIdentity(t *testing.T) {
	t.Parallel()
	h := sharedHost(t)
	got := map[string]int{}
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/version", "/metrics", "/apis", "/api/v1/namespaces"} {
		got[path], _ = send(t, h.With(pki.Pair{}), http.MethodGet, h.URL+path, "", nil)
	}
	want := map[string]int{"/livez": 200, "/readyz": 200, "/healthz": 200, "/version": 401, "/metrics": 401, "/apis": 401, "/api/v1/namespaces": 401}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status codes (-want,+got):\n%s", diff)
	}
}

func send(t *testing.T, config *rest.Config, method, url, body string, headers map[string]string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}
