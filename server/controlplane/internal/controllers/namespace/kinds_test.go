// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package namespace

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// TestAResourceIsLookedAtOnceForEachServer serves widgets in three versions. Those of one server have the same objects.
func TestAResourceIsLookedAtOnceForEachServer(t *testing.T) {
	t.Parallel()
	behind := func(version, service string) apiregistrationv1.APIService {
		out := apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Group: "example.com", Version: version}}
		if service != "" {
			out.Spec.Service = &apiregistrationv1.ServiceReference{Namespace: "ns", Name: service}
		}
		return out
	}
	encoded := func(items ...apiregistrationv1.APIService) string {
		text, err := json.Marshal(apiregistrationv1.APIServiceList{Items: items})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, tc := range map[string]struct {
		code     int
		services string
		want     []string
		fails    bool
	}{
		"no aggregator":         {code: http.StatusNotFound, services: "{}", want: []string{"v2"}},
		"all here":              {code: http.StatusOK, services: encoded(behind("v2", ""), behind("v1", ""), behind("v0", "")), want: []string{"v2"}},
		"all of one server":     {code: http.StatusOK, services: encoded(behind("v2", "a"), behind("v1", "a"), behind("v0", "a")), want: []string{"v2"}},
		"one of another server": {code: http.StatusOK, services: encoded(behind("v2", "a"), behind("v1", "b"), behind("v0", "a")), want: []string{"v1", "v2"}},
		"some here":             {code: http.StatusOK, services: encoded(behind("v2", ""), behind("v1", "a"), behind("v0", "")), want: []string{"v1", "v2"}},
		"it is not known":       {code: http.StatusInternalServerError, services: "{}", want: []string{"v2"}, fails: true},
		"it may not be known":   {code: http.StatusForbidden, services: "{}", want: []string{"v2"}, fails: true},
		"it cannot be read":     {code: http.StatusOK, services: "[]", want: []string{"v2"}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				var out any
				switch request.URL.Path {
				case "/api":
					out = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}}
				case "/apis":
					group := metav1.APIGroup{Name: "example.com"}
					for _, version := range []string{"v2", "v1", "v0"} {
						group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: "example.com/" + version, Version: version})
					}
					group.PreferredVersion = group.Versions[0]
					out = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group}}
				case "/apis/example.com/v0", "/apis/example.com/v1", "/apis/example.com/v2":
					out = metav1.APIResourceList{GroupVersion: request.URL.Path[len("/apis/"):], APIResources: []metav1.APIResource{
						{Name: "widgets", Kind: "Widget", Namespaced: true, Verbs: []string{"list", "delete"}},
					}}
				case "/apis/apiregistration.k8s.io/v1/apiservices":
					w.WriteHeader(tc.code)
					_, _ = w.Write([]byte(tc.services))
					return
				default:
					http.NotFound(w, request)
					return
				}
				_ = json.NewEncoder(w).Encode(out)
			}))
			t.Cleanup(listener.Close)
			config := &rest.Config{Host: listener.URL}
			client, err := discovery.NewDiscoveryClientForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			objects, err := metadata.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := newKinds(client, objects).since(t.Context(), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, kind := range answer.kinds {
				got = append(got, kind.Version)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("versions in which widgets are looked at (-want,+got):\n%s", diff)
			}
			if (answer.failure != nil) != tc.fails || answer.unparsable != nil {
				t.Errorf("failure %v, unparsable %v; want a failure: %t", answer.failure, answer.unparsable, tc.fails)
			}
		})
	}
}
