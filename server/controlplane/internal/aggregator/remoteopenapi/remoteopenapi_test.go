// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package remoteopenapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteopenapi"
	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

// remote is a server with documents. Its state is the hash of the one of things.example.com.
type remote struct {
	*httptest.Server
	state atomic.Pointer[string]
	lists atomic.Int32
	// broken servers answer no question for the list.
	broken atomic.Bool
	// last is the latest request for a document.
	last atomic.Pointer[http.Request]
}

const (
	document      = "/openapi/v3/apis/things.example.com/v1"
	groupDocument = "/openapi/v3/apis/things.example.com"
)

func startRemote(t *testing.T) *remote {
	t.Helper()
	r := &remote{}
	r.set("one")
	r.Server = httptest.NewTLSServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *remote) set(state string) { r.state.Store(&state) }

func (r *remote) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	state := *r.state.Load()
	switch request.URL.Path {
	case "/openapi/v3":
		r.lists.Add(1)
		if r.broken.Load() {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		if got := request.Header.Get("X-Remote-User"); got != "system:aggregator" {
			http.Error(w, got, http.StatusForbidden)
			return
		}
		_, _ = fmt.Fprintf(w, `{"paths":{"version":{"serverRelativeURL":"/openapi/v3/version?hash=remote"},"apis/others.example.com/v1":{"serverRelativeURL":"remote"},`+
			`"apis/things.example.com":{"serverRelativeURL":"group-%[2]s"},"apis/things.example.com/v1":{"serverRelativeURL":"%[1]s?hash=%[2]s"}}}`, document, state)
	case document, groupDocument:
		r.last.Store(request)
		// This is what generic apiservers do.
		if hash := request.URL.Query().Get("hash"); hash != "" && hash != state {
			http.Redirect(w, request, document+"?hash="+state, http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "of the server")
		w.Header().Set("Etag", `"`+state+`"`)
		w.Header().Set("Audit-Id", "of the server")
		http.ServeContent(w, request, "", time.Time{}, strings.NewReader("document "+state))
	default:
		http.NotFound(w, request)
	}
}

func (r *remote) ResolveEndpoint(string, string, int32) (*url.URL, error) { return url.Parse(r.URL) }

// service returns an APIService of the remote server.
func service(name string, available apiregistrationv1.ConditionStatus) *apiregistrationv1.APIService {
	version, group, _ := strings.Cut(name, ".")
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: version, InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "remote"},
		},
		Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{{Type: apiregistrationv1.Available, Status: available}}},
	}
}

// front is an aggregator in front of a server.
func front(r *remote, services ...*apiregistrationv1.APIService) http.Handler {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, service := range services {
		_ = indexer.Add(service)
	}
	return served(remoteopenapi.New(remoteservers.Servers{Resolver: r}, listers.NewAPIServiceLister(indexer)))
}

// served serves documents as an aggregator does that has some of its own.
func served(documents *remoteopenapi.Documents) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi/v3" {
			list := map[string]handler3.OpenAPIV3DiscoveryGroupVersion{
				"version": {ServerRelativeURL: "local"}, "apis/things.example.com/v1": {ServerRelativeURL: "old"}, "apis/gone.example.com/v1": {ServerRelativeURL: "old"},
			}
			documents.Overlay(r.Context(), list)
			remoteopenapi.ServeList(w, r, list)
			return
		}
		if name, ok := strings.CutPrefix(r.URL.Path, "/openapi/v3/"); !ok || !documents.Serve(w, r, name) {
			http.Error(w, "the aggregator", http.StatusTeapot)
		}
	})
}

func TestAGroupWithAVersionOfOurOwnIsOurs(t *testing.T) {
	t.Parallel()
	own := service("v2.things.example.com", apiregistrationv1.ConditionTrue)
	own.Spec.Service = nil
	handler := front(startRemote(t), service("v1.things.example.com", apiregistrationv1.ConditionTrue), own)
	if answer := ask(t, handler, groupDocument); answer.Code != http.StatusTeapot {
		t.Errorf("got %d %q, want what the aggregator says", answer.Code, answer.Body)
	}
	if answer := ask(t, handler, document); answer.Code != http.StatusOK {
		t.Errorf("got %d %q for the version of the server", answer.Code, answer.Body)
	}
}

func ask(t *testing.T, handler http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r = r.WithContext(request.WithUser(r.Context(), &user.DefaultInfo{Name: "carol", Groups: []string{"team"}}))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	recorder := httptest.NewRecorder()
	recorder.Header().Set("Cache-Control", "of the control plane")
	recorder.Header().Set("Audit-Id", "of the control plane")
	handler.ServeHTTP(recorder, r)
	return recorder
}

func urls(t *testing.T, handler http.Handler) map[string]string {
	t.Helper()
	list := handler3.OpenAPIV3Discovery{}
	if err := json.Unmarshal(ask(t, handler, "/openapi/v3").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for name, entry := range list.Paths {
		found[name] = entry.ServerRelativeURL
	}
	return found
}

func TestList(t *testing.T) {
	t.Parallel()
	const things, gone, others = "v1.things.example.com", "v1.gone.example.com", "v1.others.example.com"
	local := service("v1.others.example.com", apiregistrationv1.ConditionTrue)
	local.Spec.Service = nil
	before := map[string]string{"version": "local", "apis/things.example.com/v1": "old", "apis/gone.example.com/v1": "old"}
	for name, tc := range map[string]struct {
		services []*apiregistrationv1.APIService
		broken   bool
		want     map[string]string
	}{
		"no remote server": {services: []*apiregistrationv1.APIService{local}, want: before},
		"a remote server": {services: []*apiregistrationv1.APIService{local, service(things, apiregistrationv1.ConditionTrue)}, want: map[string]string{
			"version": "local", "apis/gone.example.com/v1": "old", "apis/things.example.com": "group-one", "apis/things.example.com/v1": document + "?hash=one",
		}},
		"more of one server": {services: []*apiregistrationv1.APIService{service(others, apiregistrationv1.ConditionTrue), service(gone, apiregistrationv1.ConditionTrue)}, want: map[string]string{
			"version": "local", "apis/things.example.com/v1": "old", "apis/others.example.com/v1": "remote",
		}},
		"one that is away":            {services: []*apiregistrationv1.APIService{service(things, apiregistrationv1.ConditionFalse)}, want: before},
		"one that does not answer":    {services: []*apiregistrationv1.APIService{service(things, apiregistrationv1.ConditionTrue)}, broken: true, want: before},
		"one that has not been asked": {services: []*apiregistrationv1.APIService{service(things, apiregistrationv1.ConditionUnknown)}, want: before},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRemote(t)
			r.broken.Store(tc.broken)
			handler := front(r, tc.services...)
			began := time.Now()
			for range 3 {
				if diff := cmp.Diff(tc.want, urls(t, handler)); diff != "" {
					t.Errorf("(-want,+got):\n%s", diff)
				}
			}
			if lists := r.lists.Load(); lists > 1 && time.Since(began) < time.Second {
				t.Errorf("the server was asked %d times within a second", lists)
			}
		})
	}
}

func TestListFollowsServer(t *testing.T) {
	t.Parallel()
	r := startRemote(t)
	handler := front(r, service("v1.things.example.com", apiregistrationv1.ConditionTrue))
	first := ask(t, handler, "/openapi/v3")
	if got := ask(t, handler, "/openapi/v3", "If-None-Match", first.Header().Get("Etag")); got.Code != http.StatusNotModified {
		t.Errorf("the same list again: got %d", got.Code)
	}
	r.set("two")
	changed := time.Now()
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for urls(t, handler)["apis/things.example.com/v1"] != document+"?hash=two" {
				if time.Since(changed) > time.Minute {
					t.Error("the list does not follow")
					return
				}
				<-time.After(5 * time.Millisecond)
			}
		})
	}
	asking.Wait()
	took := time.Since(changed)
	if lists, most := r.lists.Load(), 2+int32(took/time.Second); lists > most {
		t.Errorf("the server was asked %d times within %s, want %d at most", lists, took, most)
	}
	if got := ask(t, handler, "/openapi/v3", "If-None-Match", first.Header().Get("Etag")); got.Code != http.StatusOK {
		t.Errorf("the changed list: got %d", got.Code)
	}
	// What the server said last is better than what the aggregator read at some time.
	r.broken.Store(true)
	for asked := r.lists.Load(); r.lists.Load() == asked; {
		if got := urls(t, handler)["apis/things.example.com/v1"]; got != document+"?hash=two" {
			t.Fatalf("from a server that does not answer anymore: got %s", got)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		path, noneMatch string
		status          int
		body            string
	}{
		"current hash":            {path: document + "?hash=one", status: http.StatusOK, body: "document one"},
		"no hash":                 {path: document, status: http.StatusOK, body: "document one"},
		"stale hash":              {path: document + "?hash=zero", status: http.StatusOK, body: "document one"},
		"known":                   {path: document + "?hash=one", noneMatch: `"one"`, status: http.StatusNotModified},
		"of the aggregator":       {path: "/openapi/v3/apis/local.example.com/v1", status: http.StatusTeapot, body: "the aggregator\n"},
		"that the server has not": {path: "/openapi/v3/apis/gone.example.com/v1", status: http.StatusTeapot, body: "the aggregator\n"},
		"of a group":              {path: groupDocument, status: http.StatusOK, body: "document one"},
		"of another group":        {path: "/openapi/v3/apis/local.example.com", status: http.StatusTeapot, body: "the aggregator\n"},
		"something else":          {path: "/openapi/v2", status: http.StatusTeapot, body: "the aggregator\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startRemote(t)
			handler := front(r, service("v1.things.example.com", apiregistrationv1.ConditionTrue), service("v1.gone.example.com", apiregistrationv1.ConditionTrue))
			headers := []string{"Accept", "x/y", "Authorization", "Bearer secret", "X-Remote-User", "root", "X-Remote-Group", "system:masters"}
			if tc.noneMatch != "" {
				headers = append(headers, "If-None-Match", tc.noneMatch)
			}
			got := ask(t, handler, tc.path, headers...)
			if got.Code != tc.status || got.Body.String() != tc.body {
				t.Fatalf("got %d %q, want %d %q", got.Code, got.Body, tc.status, tc.body)
			}
			if tc.status == http.StatusTeapot {
				return
			}
			if diff := cmp.Diff(map[string][]string{"Cache-Control": {"of the server"}, "Audit-Id": {"of the control plane"}, "Etag": {`"one"`}},
				map[string][]string{"Cache-Control": got.Header()["Cache-Control"], "Audit-Id": got.Header()["Audit-Id"], "Etag": got.Header()["Etag"]}); diff != "" {
				t.Errorf("headers (-want,+got):\n%s", diff)
			}
			sent := r.last.Load().Header
			if diff := cmp.Diff(map[string][]string{"X-Remote-User": {"carol"}, "X-Remote-Group": {"team"}, "Authorization": nil, "Accept": {"x/y"}},
				map[string][]string{"X-Remote-User": sent["X-Remote-User"], "X-Remote-Group": sent["X-Remote-Group"], "Authorization": sent["Authorization"], "Accept": sent["Accept"]}); diff != "" {
				t.Errorf("what reached the server (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestServerThatIsAway(t *testing.T) {
	t.Parallel()
	r := startRemote(t)
	handler := front(r, service("v1.things.example.com", apiregistrationv1.ConditionTrue))
	urls(t, handler)
	r.Close()
	if got := ask(t, handler, document); got.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d %s, want 503", got.Code, got.Body)
	}
}

func TestUsersAreNotSentElsewhere(t *testing.T) {
	t.Parallel()
	elsewhere := &redirecting{}
	elsewhere.Server = httptest.NewTLSServer(elsewhere)
	defer elsewhere.Close()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	_ = indexer.Add(service("v1.things.example.com", apiregistrationv1.ConditionTrue))
	got := ask(t, served(remoteopenapi.New(remoteservers.Servers{Resolver: elsewhere}, listers.NewAPIServiceLister(indexer))), document+"?hash=x")
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Location") != "" {
		t.Errorf("got %d %v", got.Code, got.Header())
	}
}

// redirecting lists a document and redirects who asks for it.
type redirecting struct{ *httptest.Server }

func (r *redirecting) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.URL.Path == "/openapi/v3" {
		_, _ = w.Write([]byte(`{"paths":{"apis/things.example.com/v1":{"serverRelativeURL":"x"}}}`))
		return
	}
	http.Redirect(w, request, "https://elsewhere.example.com/", http.StatusFound)
}

func (r *redirecting) ResolveEndpoint(string, string, int32) (*url.URL, error) {
	return url.Parse(r.URL)
}
