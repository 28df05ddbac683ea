// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package localdispatch_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"

	"github.com/kube-annex/annex/server/certificates/pki"
	"github.com/kube-annex/annex/server/controlplane/internal/localdispatch"
)

const path = "/apis/test.example.com/v1/things/a"

// way is a dispatcher to a server that keeps the last request it got, in front of a proxy that does the same.
type way struct {
	handler         http.Handler
	direct, proxied *http.Request
	certificate     *dynamiccertificates.DynamicCertKeyPairContent
	authority       *pki.Authority
	files           pki.Pair
	whileServing    func(context.Context)
}

func (w *way) find(namespace, name string, port int32) http.Handler {
	if namespace != "system" || name != "near" || port != 443 {
		return nil
	}
	return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		w.direct = r
		if w.whileServing != nil {
			w.whileServing(r.Context())
		}
	})
}

func newWay(t *testing.T, changes ...func(*apiregistrationv1.APIService)) *way {
	t.Helper()
	directory, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &way{}
	if w.authority, err = directory.Authority("proxy-ca", "proxies"); err != nil {
		t.Fatal(err)
	}
	pair, err := w.authority.Client("proxy", "front-proxy")
	if err != nil {
		t.Fatal(err)
	}
	w.files = pair
	if w.certificate, err = dynamiccertificates.NewDynamicServingContentFromFiles("front-proxy", pair.CertFile, pair.KeyFile); err != nil {
		t.Fatal(err)
	}
	port := int32(443)
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.test.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: "test.example.com", Version: "v1", Service: &apiregistrationv1.ServiceReference{Namespace: "system", Name: "near", Port: &port},
		},
		Status: apiregistrationv1.APIServiceStatus{Conditions: []apiregistrationv1.APIServiceCondition{
			{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue},
		}},
	}
	for _, change := range changes {
		change(service)
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if err := indexer.Add(service); err != nil {
		t.Fatal(err)
	}
	dispatcher := localdispatch.New(w.find, localdispatch.NewIdentity(w.certificate.CurrentCertKeyContent), listers.NewAPIServiceLister(indexer), utilfeature.DefaultFeatureGate)
	w.handler = dispatcher.WithLocalDispatch(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { w.proxied = r }))
	return w
}

// send has jane send the request, as the filters of a control plane hand it on.
func (w *way) send(t *testing.T, r *http.Request) {
	t.Helper()
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("apis", "api"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		t.Fatal(err)
	}
	ctx := request.WithUser(request.WithRequestInfo(audit.WithAuditContext(r.Context()), info), &user.DefaultInfo{
		Name: "jane", UID: "17", Groups: []string{"developers", "testers"}, Extra: map[string][]string{"scopes": {"x"}},
	})
	audit.WithAuditID(ctx, "the-id")
	w.handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
}

func TestTheServerLearnsWhatAConnectionWouldTell(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path+"?resourceVersion=0", nil)
	r.Header.Set("X-Remote-User", "somebody-else")
	r.Header.Add("X-Remote-Group", "system:masters")
	r.Header.Set("X-Remote-Extra-Other", "forged")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Connection", "X-Remote-User")
	w.send(t, r)
	if w.direct == nil || w.proxied != nil {
		t.Fatalf("the server got %v and the proxy %v, want the server alone to get it", w.direct, w.proxied)
	}
	got := map[string][]string(w.direct.Header)
	want := map[string][]string{
		"Accept": {"application/json"}, "Connection": {"X-Remote-User"}, "Audit-Id": {"the-id"},
		"X-Remote-User": {"jane"}, "X-Remote-Uid": {"17"}, "X-Remote-Group": {"developers", "testers"}, "X-Remote-Extra-Scopes": {"x"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want,+got):\n%s", diff)
	}
	if w.direct.TLS == nil || len(w.direct.TLS.PeerCertificates) != 1 || w.direct.TLS.PeerCertificates[0].Subject.CommonName != "front-proxy" {
		t.Errorf("the certificate beside it is %+v, want that of the front proxy", w.direct.TLS)
	}
	if w.direct.URL.String() != path+"?resourceVersion=0" {
		t.Errorf("the server is asked for %s", w.direct.URL)
	}
	if r.Header.Get("X-Remote-User") != "somebody-else" {
		t.Error("the request of the control plane has changed")
	}
	// What the control plane knows is not to be mistaken for what the server found out.
	ctx := w.direct.Context()
	if _, ok := request.UserFrom(ctx); ok {
		t.Error("the server finds a user that it has not authenticated")
	}
	if _, ok := request.RequestInfoFrom(ctx); ok {
		t.Error("the server finds what the control plane made of the path")
	}
	if audit.AuditContextFrom(ctx) != nil {
		t.Error("the server would write into the control plane's audit record")
	}
}

func TestOtherRequestsGoToTheProxy(t *testing.T) {
	t.Parallel()
	get := func(t *testing.T, path string) *http.Request {
		t.Helper()
		return httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	}
	upgrade := func(t *testing.T) *http.Request {
		t.Helper()
		r := get(t, path)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		return r
	}
	far := int32(444)
	for name, tc := range map[string]struct {
		request func(*testing.T) *http.Request
		change  func(*apiregistrationv1.APIService)
	}{
		"discovery of a group": {request: func(t *testing.T) *http.Request { t.Helper(); return get(t, "/apis/test.example.com/v1") }},
		"another group":        {request: func(t *testing.T) *http.Request { t.Helper(); return get(t, "/apis/other.example.com/v1/things/a") }},
		"another version":      {request: func(t *testing.T) *http.Request { t.Helper(); return get(t, "/apis/test.example.com/v2/things/a") }},
		"the core group":       {request: func(t *testing.T) *http.Request { t.Helper(); return get(t, "/api/v1/namespaces/a") }},
		"something else":       {request: func(t *testing.T) *http.Request { t.Helper(); return get(t, "/healthz") }},
		"an upgrade":           {request: upgrade},
		"a server far away":    {change: func(s *apiregistrationv1.APIService) { s.Spec.Service.Name = "far" }},
		"another port":         {change: func(s *apiregistrationv1.APIService) { s.Spec.Service.Port = &far }},
		"a local APIService":   {change: func(s *apiregistrationv1.APIService) { s.Spec.Service = nil }},
		"one that is not there": {change: func(s *apiregistrationv1.APIService) {
			s.Status.Conditions[0].Status = apiregistrationv1.ConditionFalse
		}},
		"one nobody has seen to": {change: func(s *apiregistrationv1.APIService) { s.Status.Conditions = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var changes []func(*apiregistrationv1.APIService)
			if tc.change != nil {
				changes = append(changes, tc.change)
			}
			w := newWay(t, changes...)
			r := get(t, path)
			if tc.request != nil {
				r = tc.request(t)
			}
			w.send(t, r)
			if w.direct != nil || w.proxied == nil {
				t.Errorf("the server got %v and the proxy %v, want the proxy alone to get it", w.direct, w.proxied)
			}
		})
	}
}

func TestTheServersRequestEndsWithTheUsers(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	why := errors.New("the user has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	var cause error
	w.whileServing = func(ctx context.Context) {
		cancel(why)
		<-ctx.Done()
		cause = context.Cause(ctx)
	}
	w.send(t, httptest.NewRequestWithContext(ctx, http.MethodGet, path+"?watch=true", nil))
	if !errors.Is(cause, why) {
		t.Errorf("the server's request ended with %v, want %v", cause, why)
	}
	// And what a server leaves running ends with its answer.
	w.whileServing = nil
	w.send(t, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if w.direct.Context().Err() == nil {
		t.Error("the context of a request that is answered has not ended")
	}
}

func TestANewCertificateIsShown(t *testing.T) {
	t.Parallel()
	w := newWay(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.certificate.Run(ctx, 1)
	}()
	defer func() { cancel(); <-ended }()
	pair, err := w.authority.Client("another", "other-proxy")
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{pair.CertFile: w.files.CertFile, pair.KeyFile: w.files.KeyFile} {
		content, err := os.ReadFile(filepath.Clean(from))
		if err == nil {
			err = os.WriteFile(to, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(2 * time.Minute) // without a notice of the file system files are looked at every minute
	for {
		w.send(t, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if w.direct.TLS.PeerCertificates[0].Subject.CommonName == "other-proxy" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the certificate shown is still the first one")
		}
		<-time.After(20 * time.Millisecond)
	}
}
