// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/kube-annex/annex/server/controlplane/internal/aggregator/remoteservers"
)

const things = "/apis/things.example.com/v1/things"

// at resolves every service to one address.
type at string

func (a at) ResolveEndpoint(string, string, int32) (*url.URL, error) { return url.Parse(string(a)) }

// serviceOf is an available APIService.
func serviceOf() *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.things.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "things.example.com", Version: "v1", InsecureSkipTLSVerify: true,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "things"},
		},
		Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{
			{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue},
		}},
	}
}

// front is a proxy to a server, as carol's requests reach it.
func front(t *testing.T, server http.HandlerFunc, timeout time.Duration, service *apiregistrationv1.APIService) *httptest.Server {
	t.Helper()
	backend := httptest.NewTLSServer(server)
	t.Cleanup(backend.Close)
	t.Cleanup(backend.CloseClientConnections)
	p := &proxy{servers: remoteservers.Servers{Resolver: at(backend.URL)}, tracer: noop.NewTracerProvider(), timeout: timeout, gates: utilfeature.DefaultFeatureGate}
	way := &way{}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := request.WithUser(r.Context(), &user.DefaultInfo{Name: "carol", UID: "1", Groups: []string{"team"}})
		info := &request.RequestInfo{Path: r.URL.Path, IsResourceRequest: r.URL.Path == things, Verb: "list"}
		p.pass(w, r.WithContext(request.WithRequestInfo(ctx, info)), service, way)
	}))
	t.Cleanup(front.Close)
	return front
}

// send returns the status and what the answer says.
func send(ctx context.Context, t *testing.T, front *httptest.Server, path string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Remote-User", "root")
	response, err := front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	status := metav1.Status{}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		t.Errorf("the answer is no status: %v", err)
	}
	return response.StatusCode, status.Message
}

func TestErrorsOfServers(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, tc := range map[string]struct {
		server  http.HandlerFunc
		change  func(*apiregistrationv1.APIService)
		path    string
		timeout time.Duration
		// status and says are what the user gets.
		status int
		says   string
	}{
		"not available": {change: func(s *apiregistrationv1.APIService) {
			s.Status.Conditions[0].Status = apiregistrationv1.ConditionFalse
		}, status: http.StatusServiceUnavailable, says: "the server behind APIService v1.things.example.com is not available"},
		"not looked at": {change: func(s *apiregistrationv1.APIService) { s.Status.Conditions = nil }, status: http.StatusServiceUnavailable, says: "is not available"},
		"breaks off":    {server: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, status: http.StatusServiceUnavailable, says: "error trying to reach service"}, //nolint:forbidigo // net/http's way
		// A watch has no end of its own, so without this it would wait for as long as the user does.
		"never begins":                 {server: hang, timeout: 100 * time.Millisecond, path: things + "?watch=true", status: http.StatusServiceUnavailable, says: "the server did not begin to answer in time"},
		"never begins, with discovery": {server: hang, path: "/apis/things.example.com/v1", status: http.StatusGatewayTimeout, says: "did not answer in time"},
		"redirects": {server: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere.example.com/", http.StatusFound)
		}, status: http.StatusBadGateway},
		"no certificate": {change: func(s *apiregistrationv1.APIService) { s.Spec.InsecureSkipTLSVerify = false }, status: http.StatusServiceUnavailable, says: "certificate"},
		"an authority that is none": {change: func(s *apiregistrationv1.APIService) {
			s.Spec.InsecureSkipTLSVerify, s.Spec.CABundle = false, []byte("none")
		}, status: http.StatusInternalServerError, says: "set up TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.timeout == 0 {
				tc.timeout = time.Minute
			}
			if tc.path == "" {
				tc.path = things
			}
			if tc.server == nil {
				tc.server = func(http.ResponseWriter, *http.Request) {}
			}
			service := serviceOf()
			if tc.change != nil {
				tc.change(service)
			}
			began := time.Now()
			if tc.status == http.StatusBadGateway {
				response, err := front(t, tc.server, tc.timeout, service).Client().Get(front(t, tc.server, tc.timeout, service).URL + tc.path) //nolint:noctx // short
				if err != nil || response.StatusCode != tc.status || response.Header.Get("Location") != "" {
					t.Errorf("got %v %v", response, err)
				}
				return
			}
			status, says := send(t.Context(), t, front(t, tc.server, tc.timeout, service), tc.path)
			if status != tc.status || !strings.Contains(says, tc.says) {
				t.Errorf("got %d %q, want %d %q", status, says, tc.status, tc.says)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestAWatchOutlivesThePatience has a watch begin in time and go on for longer than that.
func TestAWatchOutlivesThePatience(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	server := func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header["X-Remote-User"]; len(got) != 1 || got[0] != "carol" {
			t.Errorf("the server is told that the user is %v", got)
		}
		w.(http.Flusher).Flush()
		<-time.After(2 * patience)
		_ = json.NewEncoder(w).Encode(metav1.Status{Message: "still here"})
	}
	if status, says := send(t.Context(), t, front(t, server, patience, serviceOf()), things+"?watch=true"); status != http.StatusOK || says != "still here" {
		t.Errorf("got %d %q", status, says)
	}
}

// TestTheWayIsFoundAnew changes the certificate, which a renewed one does, and the APIService.
func TestTheWayIsFoundAnew(t *testing.T) {
	t.Parallel()
	cert := []byte(nil)
	p := &proxy{servers: remoteservers.Servers{ClientCertificate: func() ([]byte, []byte) { return cert, cert }}}
	service, way := serviceOf(), &way{}
	first, err := p.transport(service, way)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.transport(service, way); err != nil || again != first {
		t.Errorf("nothing has changed, and the way has: %v", err)
	}
	changed := service.DeepCopy()
	changed.Spec.Service.Name = "others"
	if other, err := p.transport(changed, way); err != nil || other == first {
		t.Errorf("the service has changed, and the way has not: %v", err)
	}
	cert = []byte("none")
	if _, err := p.transport(changed, way); err == nil {
		t.Error("the certificate is not used")
	}
}
